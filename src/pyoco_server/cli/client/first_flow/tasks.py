"""The tasks of flow.yaml: plain functions. What they print is in the worker's log, what they return in the run."""


def words(text: str) -> list[str]:
    """A param of the run (see `defaults` in flow.yaml) is received by its name."""
    return text.split()


def count(words: list[str]) -> dict[str, int]:
    """A parameter named like an earlier task receives what that task returned."""
    return {word: words.count(word) for word in words}


def report(count: dict[str, int]) -> str:
    """The result of a task is kept with the run: `pyoco-client tasks RUN_ID` shows it."""
    most = max(count, key=lambda word: count[word])
    print(f"counted {sum(count.values())} words")
    return f"the most frequent word is {most!r}, {count[most]} times"
