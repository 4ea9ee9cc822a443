#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""
Whether a file is SARIF 2.1.0 as `verbatim check` may write it:  sarif.py FILE SOURCE

What the schema of OASIS requires of the objects that are used (required properties, no others, types,
enumerations, minima), and what GitHub's code scanning requires besides. SOURCE: the file in which the first
result lies.
"""
import json
import re
import sys

# object: {property: type of value, or (object,) for an array}; those in capitals are required
MESSAGE = {'TEXT': str}
SCHEMA = {
    'log': {'$schema': 'uri', 'VERSION': re.compile(r'2\.1\.0'), 'RUNS': ('run',)},
    'run': {'TOOL': 'tool', 'results': ('result',), 'columnKind': re.compile('utf16CodeUnits|unicodeCodePoints')},
    'tool': {'DRIVER': 'driver'},
    'driver': {'NAME': str, 'version': str, 'rules': ('rule',)},
    'rule': {'ID': str, 'shortDescription': 'text', 'fullDescription': 'text', 'help': 'text',
             'defaultConfiguration': 'configuration'},
    'configuration': {'level': re.compile('none|note|warning|error')},
    'text': MESSAGE,
    'result': {'MESSAGE': 'text', 'ruleId': str, 'ruleIndex': int, 'level': re.compile('none|note|warning|error'),
               'locations': ('location',), 'partialFingerprints': dict, 'stacks': ('stack',)},
    'location': {'physicalLocation': 'place', 'logicalLocations': ('logical',)},
    'place': {'artifactLocation': 'artifact', 'region': 'region'},
    'artifact': {'uri': 'uri', 'uriBaseId': str},
    'region': {'startLine': int},
    'logical': {'fullyQualifiedName': str, 'kind': str},
    'stack': {'message': 'text', 'FRAMES': ('frame',)},
    'frame': {'location': 'location', 'module': str},
}


def problems(value, kind, path):
    if isinstance(kind, re.Pattern):
        if not isinstance(value, str) or not kind.fullmatch(value):
            yield '%s: %r' % (path, value)
    elif kind == 'uri':
        if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9._~:/?#@!$&'()*+,;=%-]+", value):
            yield '%s: no reference: %r' % (path, value)
    elif isinstance(kind, type):
        if not isinstance(value, kind) or (kind is int and value < 0):
            yield '%s: %r is no %s' % (path, value, kind.__name__)
    elif isinstance(kind, tuple):
        if not isinstance(value, list):
            yield '%s: no array' % path
            return
        for i, one in enumerate(value):
            yield from problems(one, kind[0], '%s[%d]' % (path, i))
    else:
        known = {name.lower() if name.isupper() else name: name for name in SCHEMA[kind]}
        for name in value:
            if name not in known:
                yield '%s: %s is no property of %s' % (path, name, kind)
            else:
                yield from problems(value[name], SCHEMA[kind][known[name]], path + '.' + name)
        for name in known:
            if known[name].isupper() and name not in value:
                yield '%s lacks %s' % (path, name)


def of_github(run, source):
    rules = [rule['id'] for rule in run['tool']['driver']['rules']]
    if len(set(rules)) != len(rules):
        yield 'a rule stands twice'
    if not 0 < len(run['results']) <= 5000:
        yield '%d results' % len(run['results'])
    for result in run['results']:
        if rules[result['ruleIndex']] != result['ruleId']:
            yield 'ruleIndex and ruleId differ'
        if not result.get('locations') or not result.get('partialFingerprints'):
            yield 'a result without a place or fingerprint'
        for location in result['locations']:
            artifact = location['physicalLocation']['artifactLocation']
            if artifact['uri'].startswith('/') or ('uriBaseId' in artifact) == artifact['uri'].startswith('file:'):
                yield 'a place outside of the repository: %s' % artifact
    first = run['results'][0]['locations'][0]['physicalLocation']
    if first['artifactLocation']['uri'] != source or first['region']['startLine'] < 1:
        yield 'the first result is not in %s: %s' % (source, first)


def main():
    with open(sys.argv[1], encoding='utf-8') as file:
        log = json.load(file)
    found = list(problems(log, 'log', 'log'))
    if not found:
        found = list(of_github(log['runs'][0], sys.argv[2]))
    print('\n'.join(found))
    sys.exit(bool(found))


if __name__ == '__main__':
    main()
