"""The picture of a session's life in the documentation, drawn from the table: `python -m hintcell_manager.diagram`."""

from hintcell_manager.sessions import TABLE, State


def state_diagram() -> str:
    """The session table as a Mermaid state diagram, one arrow a row."""
    lines = ["stateDiagram-v2", f"    [*] --> {State.ADMITTED.value}: open"]
    for (state, event), step in TABLE.items():
        done = f" / {step.instruction.__name__.strip('_')}" if step.instruction else ""
        lines.append(f"    {state.value} --> {step.state.value}: {event.value}{done}")
    lines.append(f"    {State.ENDED.value} --> [*]")
    return "\n".join(lines)


if __name__ == "__main__":
    print(state_diagram())
