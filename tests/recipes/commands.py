#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""commands.py FILE: the shell commands of a recipe, one a line, as its tool would run them:
RUN and COPY of a Dockerfile, run: of GitHub Actions, script: of GitLab CI, command: of Kubernetes,
the indented lines of a page.

Each line is "STAGE<tab>COMMAND"; a stage is a machine of its own."""
import json
import re
import sys

import yaml


def of_dockerfile(text):
    text = re.sub(r'\\\n', ' ', text)
    stage = 0
    for line in text.split('\n'):
        word, _, rest = line.partition(' ')
        if word == 'FROM':
            stage += 1
        elif word == 'RUN':
            yield stage, rest
        elif word == 'WORKDIR':
            yield stage, 'mkdir -p %s; cd %s' % (rest, rest)
        elif word == 'COPY' and rest.startswith('--from='):
            yield stage, 'cp ' + rest.partition(' ')[2].replace('/src/', '/built/src/')
        elif word == 'CMD':
            yield stage, 'verbatim run ' + ' '.join(json.loads(rest))


def of_github(document):
    for stage, job in enumerate(document['jobs'].values(), 1):
        for step in job['steps']:
            if 'run' not in step:
                if not step['uses'].startswith(('actions/checkout@', 'actions/cache@')):
                    raise ValueError('an action that this test does not know: %s' % step['uses'])
                continue
            exports = ''.join('export %s=%s; ' % item for item in step.get('env', {}).items())
            script = re.sub(r' & (\w+=\$!)\n', r' & \1; ', step['run'].strip())
            directory = step.get('working-directory', '.')
            yield stage, '(cd %s && { %s%s; })' % (
                directory, exports, '; '.join(script.split('\n')))


def of_gitlab(document):
    jobs = [job for job in document.values() if isinstance(job, dict) and 'script' in job]
    for stage, job in enumerate(jobs, 1):
        for name, value in job.get('variables', {}).items():
            yield stage, 'export %s=%s' % (name, value)
        for command in job['script']:
            yield stage, command


def of_kubernetes(documents):
    for document in documents:
        spec = document['spec']
        spec = spec.get('template', document)['spec'] if document['kind'] == 'Job' else spec
        for container in spec.get('containers', []):
            security = container['securityContext']
            if security['allowPrivilegeEscalation'] or security['capabilities'] != {'drop': ['ALL']}:
                raise ValueError('a container with privileges')
            yield document['metadata']['name'], ' '.join(container['command'])


def of_page(text):
    for line in re.findall(r'^    (.+)', text, re.M):
        yield 1, line


def commands(path):
    with open(path, encoding='utf-8') as file:
        text = file.read()
    if path.endswith('.md'):
        return of_page(text)
    if path.endswith('Dockerfile'):
        return of_dockerfile(text)
    documents = list(yaml.safe_load_all(text))
    if len(documents) > 1:
        return of_kubernetes(documents)
    return of_github(documents[0]) if 'jobs' in documents[0] else of_gitlab(documents[0])


if __name__ == '__main__':
    for stage_, command_ in commands(sys.argv[1]):
        print('%s\t%s' % (stage_, command_))
