# SPDX-License-Identifier: Apache-2.0
"""Records: one SQLite file per experiment, its series beside it, and the exports."""

from .filesystem import network_type
from .folders import find_folder
from .journal import StoredJournal, create, reopen
from .locks import MachineLock
from .memory_parts import read_memory_parts, write_memory_parts
from .merging import Merged, merge, sources_in
from .records import Listed, latest, list_records, load_record
from .results import read_result
from .series import read_series

__all__ = [
    "Listed",
    "MachineLock",
    "Merged",
    "StoredJournal",
    "create",
    "find_folder",
    "latest",
    "list_records",
    "load_record",
    "merge",
    "network_type",
    "read_memory_parts",
    "read_result",
    "read_series",
    "reopen",
    "sources_in",
    "write_memory_parts",
]
