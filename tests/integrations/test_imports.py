"""What importing an adapter costs: its own framework and no other, and no NumPy unless the framework wants it."""

import subprocess
import sys

import pytest

from tests.client.searches import START_S

_FRAMEWORKS = {
    "langchain": "langchain_core",
    "llama_index": "llama_index",
    "openai_agents": "agents",
    "pydantic_ai": "pydantic_ai",
}


def loaded_by(module: str) -> set[str]:
    code = f"import sys, {module}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=START_S)
    return set(done.stdout.split())


@pytest.mark.parametrize("name", _FRAMEWORKS)
def test_an_adapter_loads_its_own_framework_alone(name: str) -> None:
    loaded = loaded_by(f"hintcell.integrations.{name}")
    assert loaded & set(_FRAMEWORKS.values()) == {_FRAMEWORKS[name]}
    if name != "llama_index":  # It loads NumPy itself.
        assert not loaded & {"numpy", "scipy", "sklearn"}


def test_the_package_of_adapters_loads_no_framework() -> None:
    assert not loaded_by("hintcell.integrations") & {*_FRAMEWORKS.values(), "pydantic", "numpy"}
