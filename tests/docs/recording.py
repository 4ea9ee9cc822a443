# SPDX-License-Identifier: BSD-2-Clause
"""docs/recording/record as a module, and what its picture says."""
import importlib.machinery
import importlib.util
import os

ROOT = os.environ.get('TEST_ROOT') or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(ROOT, 'docs', 'recording')


def load():
    loader = importlib.machinery.SourceFileLoader('record', os.path.join(FOLDER, 'record'))
    script = importlib.util.module_from_spec(importlib.util.spec_from_loader('record', loader))
    loader.exec_module(script)
    return script


def lines():
    return load().shown_lines(os.path.join(FOLDER, 'recording.svg'))
