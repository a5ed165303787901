"""The error of all state machines."""


class UnexpectedEventError(Exception):
    """An event came at a stage where it is impossible: a defect of the caller."""

    def __init__(self, event: str, stage: str) -> None:
        super().__init__(f"{event} at stage {stage}: nobody can expect it there")
