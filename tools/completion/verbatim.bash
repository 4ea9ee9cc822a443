# SPDX-License-Identifier: BSD-2-Clause
# Completion of bash for verbatim: the command itself knows its words (verbatim complete).
_verbatim()
{
	local line prefix=${COMP_WORDS[COMP_CWORD]}
	COMPREPLY=()
	while IFS= read -r line; do
		case $line in
		@program)
			mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -c -- "$prefix"; compgen -f -- "$prefix") ;;
		@file)
			compopt -o filenames 2>/dev/null
			mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$prefix") ;;
		"@rest "*)
			if declare -F _command_offset >/dev/null; then
				_command_offset "$((${line#@rest }))"
			else
				mapfile -t COMPREPLY < <(compgen -f -- "$prefix")
			fi
			return ;;
		*)
			COMPREPLY+=("$line") ;;
		esac
	done < <("${COMP_WORDS[0]}" complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _verbatim verbatim
