# SPDX-License-Identifier: BSD-2-Clause
"""Tests: each module yields the cases for a topology."""
