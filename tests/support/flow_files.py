"""A small flow.yaml, and its parsed form."""

from __future__ import annotations

from pyoco_server.adapters.flow_graph import read_flow_file
from pyoco_server.services.executions.submit import Workflow

TWO_TASKS = """\
tasks:
  load: {callable: tasks:load}
  save: {callable: tasks:save}  # 保存
flow:
  graph: load >> save
  defaults: {day: monday, n: 2}
"""


def workflow(text: str = TWO_TASKS) -> Workflow:
    return Workflow(text, read_flow_file(text.encode()))
