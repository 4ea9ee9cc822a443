# SPDX-License-Identifier: BSD-2-Clause
"""
Who calls whom, of sources that c_source.py has read: names, and slots of tables, mean what they mean
in the file that uses them. cycles.py says what an edge is.
"""
import collections
import os

from c_source import QUALIFIERS, STATEMENTS, TAGGED, TYPES, Preprocessor, Source, function_types, \
    includes, is_word

UNEVALUATED = {'sizeof', 'typeof', '__typeof__', 'offsetof', '_Alignof', 'alignof',
               '__builtin_offsetof'}


def unit(path):
    return os.path.splitext(path)[0]


# Linked in place of another file, of which it has some functions: who calls these means the other one.
STAND_INS = {'sim/program/record.c': 'trace/trace.c'}


class Tree:
    """The sources: {path below src/: text}. What their names mean, from where."""

    def __init__(self, texts):
        preprocessor = Preprocessor(texts)
        tokens = {path: preprocessor.tokens(path) for path in texts if path.endswith(('.c', '.h'))}
        types = {name for path in tokens for name in function_types(tokens[path])}
        self.files = {path: Source(path, tokens[path], types) for path in tokens}
        self.included = {path: [name for name in includes(texts[path]) if name in self.files]
                         for path in tokens}
        self.reached = {path: self.reach(path) for path in tokens}
        self.definitions = collections.defaultdict(list)	# (path, static) by name
        self.structs = collections.defaultdict(list)		# by tag
        self.slots = collections.defaultdict(list)		# structs by name of a slot
        for path, source in self.files.items():
            replaced = self.files.get(STAND_INS.get(path))
            others = {function.name for function in replaced.functions} if replaced else ()
            for function in source.functions:
                if function.name not in others:
                    self.definitions[function.name].append((path, function.static))
            for struct in source.structs:
                self.structs[struct.tag].append(struct)
                for slot in struct.slots:
                    self.slots[slot].append(struct)

    def reach(self, path):
        found, todo = {path}, [path]
        while todo:
            for name in self.included[todo.pop()]:
                if name not in found:
                    found.add(name)
                    todo.append(name)
        return found

    def resolve(self, path, name):
        """The files that define the function @name of a file: its own, a header's, or another's."""
        found = self.definitions[name]
        reached = self.reached[path]
        here = [where for where, static in found if where == path or static and where in reached]
        if here:
            return set(here[:1])
        declaring = {header for header in reached if name in self.files[header].declared}
        folder = os.path.dirname(path)
        found = {where for where, static in found if not static and
                 (declaring or os.path.dirname(where) == folder)}
        closest = {where for where in found if self.reached[where] & declaring} or \
            {where for where in found if os.path.dirname(where) == folder}
        return closest or found

    def struct(self, path, tag):
        for struct in self.structs.get(tag, ()):
            if struct.path in self.reached[path]:
                return struct
        return None

    def variable(self, path, name):
        """The tag of a variable of files."""
        for where in [path] + sorted(self.reached[path]):
            if name in self.files[where].variables:
                return self.files[where].variables[name]
        return None

    def returned(self, path, name):
        for where in [path] + sorted(self.reached[path]):
            if name in self.files[where].returns:
                return self.files[where].returns[name]
        return None

    def having(self, path, slot, tag):
        """The structs that x.slot may mean: that of the tag, or any in reach."""
        struct = tag and self.struct(path, tag)
        if struct:
            return [struct] if slot in struct.slots else []
        return [struct for struct in self.slots[slot] if struct.path in self.reached[path]]


class Reader:
    """A function, or the data of a file: what it uses."""

    def __init__(self, tree, source, first, last, function=None):
        self.tree, self.source, self.path, self.tokens = tree, source, source.path, source.tokens
        self.first, self.last, self.function = first, last, function
        self.variables = source.typed(function.first, last) if function else {}
        self.types = {}			# of the braces of initialisers: a tag or None
        self.local = {}

    def is_local(self, name):
        if name not in self.local:
            self.local[name] = bool(self.function) and (name in self.function.parameters or any(
                self.tokens[i] == name and self.declares(i) for i in range(self.first, self.last)))
        return self.local[name]

    def declares(self, i):
        """Is the name at i a variable that is declared there?"""
        tokens, at = self.tokens, i - 1
        if tokens[i + 1] not in ('=', ';', ',', '[', ')', ':', '('):
            return False
        if tokens[at] == ',':
            return tokens[i + 1] != '(' and self.continues(at)
        if tokens[at] == '*' and tokens[i + 1] == ')' and tokens[at - 1] == '(':
            return tokens[i + 2] == '('			# void (*name)(
        while tokens[at] in QUALIFIERS:
            at -= 1
        if not is_word(tokens[at]) or tokens[at] in STATEMENTS:
            return False
        return at == i - 1 or tokens[at] in TYPES or tokens[at - 1] in TAGGED or \
            tokens[at - 1] in (';', '{', '}', '(', ',', 'const', 'static')

    def continues(self, i):
        """Is the comma at i one between variables that are declared?"""
        tokens = self.tokens
        while i > self.first and tokens[i] not in (';', '{', '(', '['):
            i -= 1
            if tokens[i] in (')', ']') or tokens[i] == '}' and tokens[i + 1] == ',':
                i = self.source.partner[i] - 1
            elif tokens[i] == '}':
                break
        first, second = tokens[i + 1], tokens[i + 2]
        return tokens[i] in (';', '{', '}') and is_word(first) and first not in STATEMENTS and \
            (is_word(second) or second == '*')

    def functions(self):
        """(index, name) of the functions that are named."""
        tokens, i = self.tokens, self.first
        while i < self.last:
            token = tokens[i]
            if token in UNEVALUATED and tokens[i + 1] == '(':
                i = self.source.past(i + 1)
                continue
            if token in self.tree.definitions and not self.is_local(token):
                is_label = tokens[i + 1] == ':' and tokens[i - 1] in (';', '{', '}')
                if tokens[i - 1] not in TAGGED | {'.', '->', 'goto', 'enum'} and not is_label:
                    yield i, token
            i += 1

    def type_of(self, i):
        """The tag of the expression that ends at i, and where it begins."""
        tokens, partner = self.tokens, self.source.partner
        while tokens[i] == ']':
            i = partner[i] - 1
        if tokens[i] == ')':
            start = partner[i]
            if is_word(tokens[start - 1]) and tokens[start - 1] not in STATEMENTS:
                return self.tree.returned(self.path, tokens[start - 1]), start - 1
            if tokens[start + 1] == '(' and tokens[start + 2] in TAGGED | QUALIFIERS:
                return self.source.tag_before(start + 2, partner[start + 1]), start
            return self.type_of(i - 1)[0], start
        if tokens[i - 1] in ('.', '->'):
            if tokens[i - 2] in ('{', ','):
                return self.member(self.brace(i), tokens[i]), i - 1
            tag, start = self.type_of(i - 2)
            return self.member(tag, tokens[i]), start
        tag = self.variables.get(tokens[i])
        if not tag and not self.is_local(tokens[i]):
            tag = self.tree.variable(self.path, tokens[i])
        return tag, i

    def member(self, tag, name):
        struct = tag and self.tree.struct(self.path, tag)
        return struct.types.get(name) if struct else None

    def brace(self, i):
        """The tag of what the braces around i initialise; None: nobody knows, or it is a block."""
        tokens, partner = self.tokens, self.source.partner
        while i > self.first - 1 and tokens[i] != '{':
            i = partner[i] - 1 if tokens[i] in (')', ']', '}') and i in partner else i - 1
        if i < self.first:
            return None
        if i not in self.types:
            before = tokens[i - 1]
            is_element = before == '=' and tokens[i - 2] == ']' and \
                tokens[partner[i - 2] - 1] in ('{', ',')
            self.types[i] = None
            if is_element or before in ('{', ','):
                self.types[i] = self.brace(i - 1)
            elif before == '=':
                self.types[i] = self.type_of(i - 2)[0]
            elif before == ')':
                self.types[i] = self.source.tag_before(partner[i - 1], i)
        return self.types[i]

    def value(self, i):
        """The names in the expression that begins at i: (index, name)."""
        tokens = self.tokens
        while i < self.last and tokens[i] not in (',', ';', '}', ')'):
            if is_word(tokens[i]) and tokens[i + 1] != '(' and tokens[i - 1] not in ('.', '->'):
                yield i, tokens[i]
            i = self.source.past(i) if tokens[i] in ('[', '{') else i + 1

    def slot_uses(self):
        """(what, structs, slot, index): 'call', or 'put' with the index of the value."""
        tokens = self.tokens
        for i in range(self.first, self.last):
            slot = tokens[i]
            if slot not in self.tree.slots or tokens[i - 1] not in ('.', '->'):
                continue
            if tokens[i - 1] == '.' and tokens[i - 2] in ('{', ','):
                tag, start = self.brace(i - 2), i - 1
            else:
                tag, start = self.type_of(i - 2)
            structs = self.tree.having(self.path, slot, tag)
            after = i + 1
            while after < self.last and tokens[after] == '[':
                after = self.source.past(after)
            function = tokens[start - 3] if tokens[start - 2:start] == ['(', '&'] else ''
            if tokens[after] == '=':
                yield 'put', structs, slot, after + 1
            elif 'atomic_' in function and tokens[after] == ',':
                yield 'put', structs, slot, after + 1
            if tokens[after] == '(' or 'atomic_load' in function or 'atomic_exchange' in function:
                yield 'call', structs, slot, i

    def positional(self):
        """Functions in braces, not by name: ('put', structs, slot, index) for each of the struct."""
        for i, name in self.functions():
            if self.tokens[i - 1] in ('{', ',') and self.tokens[i + 1] in (',', '}'):
                tag = self.brace(i - 1)
                struct = tag and self.tree.struct(self.path, tag)
                for slot in struct.slots if struct else ():
                    yield 'put', [struct], slot, i


class Graph:
    """Edges between units: reasons by (from, to)."""

    def __init__(self, tree):
        self.tree = tree
        self.named = collections.defaultdict(set)
        self.tabled = collections.defaultdict(set)
        self.calls = collections.defaultdict(set)	# (struct, slot): the files that call it
        self.puts = collections.defaultdict(set)	# (struct, slot): the files of what is there
        self.setters = collections.defaultdict(list)	# name: (file, which argument, structs, slot)
        self.readers = [reader for path in sorted(tree.files)
                        for reader in self.read(tree.files[path])]
        for reader in self.readers:
            self.read_names(reader)
            self.read_slots(reader)
        for reader in self.readers:
            self.read_setters(reader)
        for key, callers in self.calls.items():
            for caller in callers:
                for target in self.puts[key]:
                    self.add(self.tabled, caller, target, '%s.%s' % (key[0].tag, key[1]))

    def read(self, source):
        for function in source.functions:
            yield Reader(self.tree, source, function.head, function.last, function)
        for first, last in source.data:
            yield Reader(self.tree, source, first, last)

    @staticmethod
    def add(edges, path, target, reason):
        if unit(path) != unit(target):
            edges[unit(path), unit(target)].add(reason)

    def read_names(self, reader):
        for _, name in reader.functions():
            for target in self.tree.resolve(reader.path, name):
                self.add(self.named, reader.path, target, name)

    def put(self, reader, structs, slot, i):
        for _, name in reader.value(i):
            if reader.is_local(name):
                if name in reader.function.parameters:
                    self.setters[reader.function.name].append(
                        (reader.path, reader.function.parameters.index(name), structs, slot))
            elif name in self.tree.definitions:
                for struct in structs:
                    self.puts[struct, slot] |= self.tree.resolve(reader.path, name)

    def read_slots(self, reader):
        for what, structs, slot, i in [*reader.slot_uses(), *reader.positional()]:
            if what == 'put':
                self.put(reader, structs, slot, i)
            else:
                for struct in structs:
                    self.calls[struct, slot].add(reader.path)

    def read_setters(self, reader):
        for i, name in reader.functions():
            if name not in self.setters or reader.tokens[i + 1] != '(':
                continue
            starts, at = [i + 2], i + 2
            while at < reader.source.partner[i + 1]:
                if reader.tokens[at] == ',':
                    starts.append(at + 1)
                at = reader.source.past(at)
            for path, which, structs, slot in list(self.setters[name]):
                if which < len(starts) and path in self.tree.resolve(reader.path, name):
                    self.put(reader, structs, slot, starts[which])

    def is_inline(self, end, name):
        """Is the function of that unit one of its header?"""
        return (end + '.h', True) in self.tree.definitions[name]

    def edges(self):
        return sorted(set(self.named) | set(self.tabled))

    def components(self, folder):
        """Two units and more that need each other, in a folder ("all": in all), large ones first."""
        follow = collections.defaultdict(list)
        for start, end in self.edges():
            if folder == 'all' or os.path.dirname(start) == os.path.dirname(end) == folder:
                follow[start].append(end)
        found = [component for component in strongly_connected(follow) if len(component) > 1]
        return sorted(found, key=lambda component: (-len(component), component))


def strongly_connected(follow):
    """Tarjan's, without recursion: sorted lists of nodes."""
    index, low, stack, on_stack = {}, {}, [], set()
    for root in sorted(follow):
        todo = [(root, None)] if root not in index else []
        while todo:
            node, ways = todo.pop()
            if ways is None:
                index[node] = low[node] = len(index)
                stack.append(node)
                on_stack.add(node)
                ways = iter(follow.get(node, ()))
            for other in ways:
                if other not in index:
                    todo += [(node, ways), (other, None)]
                    break
                if other in on_stack:
                    low[node] = min(low[node], low[other])
            else:
                if low[node] == index[node]:
                    cut = stack.index(node)
                    yield sorted(stack[cut:])
                    on_stack -= set(stack[cut:])
                    del stack[cut:]
                if todo:
                    low[todo[-1][0]] = min(low[todo[-1][0]], low[node])
