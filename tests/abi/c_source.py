# SPDX-License-Identifier: BSD-2-Clause
"""
C sources as tokens: macros expanded, functions, declarations and structs found. It is enough of C
to tell who calls whom (cycles.py), for sources written as ours are. It is no compiler: both branches
of an #if are read, and headers in angle brackets are not.
"""
import re

from layering import includes

STRIPPED = re.compile(r'^[ \t]*#[ \t]*include[^\n]*|/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'
                      r"'(?:\\.|[^'\\\n])*'", re.M | re.S)
TOKEN = re.compile(r'\x01\d+|[A-Za-z_]\w*|""|\d[\w.]*|\.\.\.|->|##|<<=|>>=|[-+*/%&|^=!<>]=|[^\s\w]')
DIRECTIVE = re.compile(r'[ \t]*#[ \t]*(\w*)[ \t]*(.*)')
DEFINE = re.compile(r'(\w+)(?:\(([^)]*)\))?(.*)')
ABOVE = re.compile(r'[ \t]*\n[ \t]*\S')	# what follows a comment that is right above something
FRAME = re.compile(r'^[ \t]*(/\*|\*/|\*)|\*/$', re.M)
CALLBACK = re.compile(r'\( \* (?:\w+ )*?(\w+) \)')
FUNCTION_TYPE = re.compile(r'\btypedef [^;{}]*?(?:(\w+) \(|\( \* (\w+) \) \()[^;{}]*;')
WORD = re.compile(r'[A-Za-z_]\w*\Z')
ATTRIBUTES = {'__attribute__', '_Alignas', 'alignas', '__asm__', '_Static_assert', 'static_assert'}
TYPES = {'void', 'char', 'short', 'int', 'long', 'float', 'double', 'signed', 'unsigned', 'bool',
         '_Bool'}
QUALIFIERS = {'*', 'const', 'volatile', 'restrict', '_Atomic', '__restrict'}
STATEMENTS = {'return', 'else', 'case', 'goto', 'do', 'if', 'while', 'for', 'switch', 'sizeof',
              'default', 'break', 'continue', '__extension__', '_Alignof', 'typeof', '__typeof__'}
SPECIFIERS = {'static', 'const', 'typedef', 'extern'}
TAGGED = {'struct', 'union'}
OPEN, CLOSE = {'(': ')', '[': ']', '{': '}'}, {')', ']', '}'}


def is_word(token):
    return WORD.match(token) is not None


def events(text):
    """
    A file without strings: macros, includes and tokens, in order. A comment on lines of its own,
    right above other text, is a token, \\x01 and what it says.
    """
    comments = []

    def strip(match):
        found = match[0]
        if found.lstrip()[0] == '#':
            return found
        if found[0] in '"\'':
            return '""' if found[0] == '"' else '0'
        line = match.string.rfind('\n', 0, match.start()) + 1
        if not match.string[line:match.start()].strip() and ABOVE.match(match.string, match.end()):
            comments.append(' '.join(FRAME.sub('', found).split()))
            return ' \x01%d ' % (len(comments) - 1)
        return ' '

    def tokens(lines):
        return ['\x01' + comments[int(token[1:])] if token[0] == '\x01' else token
                for token in TOKEN.findall('\n'.join(lines))]

    found, kept = [], []
    for line in STRIPPED.sub(strip, text.replace('\\\n', ' ')).split('\n'):
        directive = DIRECTIVE.match(line)
        if not directive:
            kept.append(line)
        elif directive[1] in ('define', 'undef', 'include'):
            found.append(('text', tokens(kept)))
            kept = []
            found.append((directive[1], directive[2]))
    return found + [('text', tokens(kept))]


def macro(text):
    """(name, (parameters or None, body))"""
    name, parameters, body = DEFINE.match(text).groups()
    if parameters is not None:
        parameters = [name.strip().replace('...', '__VA_ARGS__') for name in parameters.split(',')]
    return name, (parameters, [token for token in TOKEN.findall(body) if token[0] != '\x01'])


def arguments(tokens, i):
    """Those of the call whose "(" is tokens[i], and what follows; None: it does not end."""
    found, depth = [[]], 0
    for at in range(i, len(tokens)):
        token = tokens[at]
        depth += (token in OPEN) - (token in CLOSE)
        if not depth:
            return found, at + 1
        if token == ',' and depth == 1:
            found.append([])
        elif at > i:
            found[-1].append(token)
    return None, i


def substitute(parameters, body, given, macros, active):
    if parameters[-1] == '__VA_ARGS__':
        fixed = len(parameters) - 1
        given[fixed:] = [[token for more in given[fixed:] for token in [','] + more][1:]]
    given = dict(zip(parameters, given))
    out, i = [], 0
    while i < len(body):
        token, following = body[i], body[i + 1] if i + 1 < len(body) else None
        if token == '#' and following in given:
            out.append('""')
            i += 1
        elif token == '##' and out and following:
            right = given.get(following, [following])
            if out[-1] == ',' or not right:
                out += right
            else:
                out[-1:] = [out[-1] + right[0]] + right[1:]
            i += 1
        elif token not in given:
            out.append(token)
        elif following == '##':
            out += given[token] or ['']
        else:
            out += expand(given[token], macros, active)
        i += 1
    return [token for token in out if token]


def expand(tokens, macros, active=frozenset()):
    out, i = [], 0
    while i < len(tokens):
        token = tokens[i]
        i += 1
        if token not in macros or token in active:
            out.append(token)
            continue
        parameters, body = macros[token]
        if parameters is not None:
            given, after = arguments(tokens, i) if tokens[i:i + 1] == ['('] else (None, i)
            if given is None:
                out.append(token)
                continue
            body, i = substitute(parameters, body, given, macros, active), after
        out += expand(body, macros, active | {token})
    return out


class Preprocessor:
    """Of files by path below src/; a path that is not there is passed over."""

    def __init__(self, texts):
        self.texts, self.events, self.kept = texts, {}, {}

    def read(self, path):
        if path not in self.events:
            self.events[path] = events(self.texts[path])
        return self.events[path]

    def run(self, path, macros, out):
        for kind, what in self.read(path):
            if kind == 'text':
                out += expand(what, macros)
            elif kind == 'define':
                name, value = macro(what)
                macros[name] = value
            elif kind == 'undef':
                macros.pop(what.strip(), None)
            else:
                for included in includes('#include ' + what):
                    if included in self.texts and included.endswith('.h'):
                        macros.update(self.macros(included))
                    elif included in self.texts:
                        self.run(included, macros, out)

    def macros(self, path):
        """What a header leaves defined."""
        if path not in self.kept:
            self.kept[path] = {}		# for headers that include each other
            macros = {}
            self.run(path, macros, [])
            self.kept[path] = macros
        return self.kept[path]

    def tokens(self, path):
        out = []
        self.run(path, {}, out)
        return out


class Struct:
    def __init__(self, path, tag, comment):
        self.path, self.tag, self.comment = path, tag, comment
        self.count = 0
        self.types = {}		# of members that are structs or point to some: the tag
        self.slots = set()	# members that are functions


class Function:
    def __init__(self, name, static, first, head, last):
        self.name, self.static = name, static
        self.first = first			# token of its declaration
        self.head, self.last = head, last	# "{" and "}" of its body
        self.parameters = []


class Source:
    """A file: indices are those of its tokens. @function_types: names of typedefs, of all files."""

    def __init__(self, path, tokens, function_types):
        self.path, self.function_types = path, function_types
        self.above = {}			# the comment right above a token
        self.tokens = []
        for token in tokens:
            if token[0] == '\x01':
                self.above[len(self.tokens)] = token[1:]
            else:
                self.tokens.append(token)
        self.partner = {}
        self.whole = self.pair()
        self.functions, self.structs, self.data = [], [], []
        self.declared, self.returns, self.variables = set(), {}, {}
        if self.whole:
            self.split()
            self.variables = self.typed(0, len(self.tokens), outside=True)
            self.find_structs()

    def pair(self):
        opened = []
        for i, token in enumerate(self.tokens):
            if token in OPEN:
                opened.append(i)
            elif token in CLOSE:
                if not opened or OPEN[self.tokens[opened[-1]]] != token:
                    return False
                self.partner[i] = opened.pop()
                self.partner[self.partner[i]] = i
        return not opened

    def past(self, i):
        """The token after this one, or after the brackets that it opens."""
        return (self.partner[i] if self.tokens[i] in OPEN else i) + 1

    def split(self):
        first = i = 0
        while i < len(self.tokens):
            token = self.tokens[i]
            if token == ';':
                self.declaration(first, i)
                first = i + 1
            elif token == '{' and '=' not in self.outside(first, i):
                at = self.name_of_function(first, i)
                if at is not None:
                    self.function(first, at, i)
                    first = self.partner[i] + 1
            i = self.past(i)

    def outside(self, first, last):
        """The tokens of a range that are in no brackets."""
        while first < last:
            yield self.tokens[first]
            first = self.past(first)

    def name_of_function(self, first, last):
        """Where the name is in "type name(parameters) attributes"; None: it is no such thing."""
        tokens, i = self.tokens, first
        while i + 1 < last:
            if tokens[i + 1] == '(' and tokens[i] in ATTRIBUTES:
                i = self.past(i + 1)
            elif tokens[i + 1] == '(' and tokens[i + 2] == '*':
                return i + 3 if tokens[i + 4] == '(' else None
            elif tokens[i + 1] == '(' and is_word(tokens[i]):
                return i
            else:
                i = self.past(i)
        return None

    def tag_before(self, first, last):
        """TAG of "struct TAG ..."."""
        for i in range(first, last - 1):
            if self.tokens[i] in TAGGED and is_word(self.tokens[i + 1]):
                return self.tokens[i + 1]
        return None

    def function(self, first, at, head):
        name = self.tokens[at]
        is_static = 'static' in self.tokens[first:at]
        function = Function(name, is_static, first, head, self.partner[head])
        start, end = at + 1, self.partner[at + 1]
        for i in range(start + 1, end + 1):
            if i == end or self.tokens[i] == ',' and self.depth_is_one(start, i):
                words = [token for token in self.tokens[start + 1:i] if is_word(token)]
                callback = CALLBACK.search(' '.join(self.tokens[start + 1:i]))
                function.parameters.append(callback[1] if callback else words[-1] if words else '')
                start = i
        self.functions.append(function)
        self.returns[name] = self.tag_before(first, at)

    def depth_is_one(self, start, i):
        """Is the comma at i in no brackets inside those that began at or before @start?"""
        return not any(token in OPEN and start < at < i < self.partner[at]
                       for at, token in enumerate(self.tokens[start:i], start))

    def declaration(self, first, last):
        tokens = self.tokens
        if 'typedef' in tokens[first:last]:
            return
        at = self.name_of_function(first, last)
        if at is not None:
            self.returns.setdefault(tokens[at], self.tag_before(first, at))
        i = first
        while i < last:
            if tokens[i] == '=':
                self.data.append((i, last))
                break
            if is_word(tokens[i]) and tokens[i - 1] not in TAGGED:
                self.declared.add(tokens[i])
            i = self.past(i)

    def typed(self, first, last, outside=False):
        """The variables of a range that are structs or point to some: {name: TAG}."""
        tokens, found, i = self.tokens, {}, first
        while i < last:
            if tokens[i] in TAGGED:
                i, tag = i + 1, None
                while tokens[i] in ATTRIBUTES:
                    i = self.past(i + 1)
                if is_word(tokens[i]):
                    tag, i = tokens[i], i + 1
                if tokens[i] == '{':
                    i = self.past(i)
                self.declarators(i, last, tag, found)
            elif outside:
                i = self.past(i)
            else:
                i += 1
        return found

    def declarators(self, i, last, tag, found):
        tokens = self.tokens
        while i < last:
            while i < last and tokens[i] in QUALIFIERS:
                i += 1
            if i >= last or not is_word(tokens[i]) or tokens[i + 1] not in '=,;[)':
                return
            found[tokens[i]] = tag or '~' + tokens[i]
            i += 1
            if tokens[i] != ',':
                return
            i += 1

    def find_structs(self):
        tokens = self.tokens
        skipped = -1
        for i, token in enumerate(tokens):
            if token != 'struct' or i < skipped:
                continue
            body, tag = self.body_of(i)
            if body is None:
                continue
            after = self.partner[body] + 1
            while after < len(tokens) and tokens[after] in QUALIFIERS:
                after += 1
            name = tag or '~' + (tokens[after] if after < len(tokens) else '')
            self.structs.append(self.struct(body, name, self.comment_above(i)))
            skipped = self.partner[body]	# those inside are found by struct()

    def comment_above(self, i):
        while i not in self.above and i and self.tokens[i - 1] in SPECIFIERS:
            i -= 1
        return self.above.get(i, '')

    def body_of(self, i):
        """Of the struct at i: where its "{" is, and its tag; each may be None."""
        tag, i = None, i + 1
        while self.tokens[i] in ATTRIBUTES:
            i = self.past(i + 1)
        if is_word(self.tokens[i]):
            tag, i = self.tokens[i], i + 1
        return (i if self.tokens[i] == '{' else None), tag

    def struct(self, body, tag, comment):
        struct = Struct(self.path, tag, comment)
        first = i = body + 1
        while i < self.partner[body]:
            if self.tokens[i] == ';':
                if self.tokens[first] not in ATTRIBUTES - {'_Alignas', 'alignas', '__attribute__'}:
                    self.member(struct, first, i)
                first = i + 1
            i = self.past(i)
        return struct

    def member(self, struct, first, last):
        """Those that a statement declares: "type a, *b, (*c)(void)"; perhaps it defines the type."""
        tag = self.tag_before(first, last)
        start = first
        while start < last and self.tokens[start] not in TAGGED:
            start += 1
        inner = None
        if start < last:
            body, tag = self.body_of(start)
            if body is not None:
                inner = self.struct(body, tag or struct.tag + '.', self.comment_above(start))
                first = self.partner[body] + 1
                if tag:
                    self.structs.append(inner)
        names = list(self.names(first, last))
        if inner and not tag:
            struct.count += inner.count
            if names:
                inner.tag = tag = struct.tag + '.' + names[0][0]
                self.structs.append(inner)
            else:
                struct.types.update(inner.types)
                struct.slots |= inner.slots
        else:
            struct.count += len(names)
        for name, is_slot in names:
            if tag:
                struct.types[name] = tag
            if is_slot:
                struct.slots.add(name)

    def names(self, first, last):
        """(name, is it a function?) of each declarator; the type may stand before the first."""
        tokens, i, words, slot = self.tokens, first, [], None
        known = any(token in self.function_types for token in tokens[first:last])
        while i <= last:
            token = tokens[i] if i < last else ','
            if token == ',':
                name = slot or (words[-1] if words and words[-1] not in TYPES else None)
                if name:
                    yield name, known or slot is not None
                words, slot = [], None
            elif token in ATTRIBUTES:
                i = self.past(i + 1)
                continue
            elif token == '(' and tokens[i + 1] == '*':
                inside = [word for word in tokens[i + 2:self.partner[i]] if is_word(word)]
                inside = [word for word in inside if word not in QUALIFIERS]
                if inside and tokens[self.partner[i] + 1] == '(':
                    slot = inside[0]
                elif inside:
                    words.append(inside[0])
            elif token == ':':
                i = next((at for at in range(i, last) if tokens[at] == ','), last)
                continue
            elif is_word(token):
                words.append(token)
            i = self.past(i) if i < last else i + 1


def function_types(tokens):
    """Names that a file typedefs to functions or pointers to some."""
    for match in FUNCTION_TYPE.finditer(' '.join(tokens)):
        yield match[1] or match[2]
