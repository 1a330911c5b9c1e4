import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.constraints import FILE, constraints

PACKAGES = ("pyproject.toml", "live/pyproject.toml", "evidence/pyproject.toml")
PINNED = {
    canonicalize_name(name): version
    for name, _, version in (line.partition("==") for line in FILE.read_text(encoding="utf-8").splitlines()[1:])
}


@pytest.mark.parametrize("package", PACKAGES)
def test_each_requirement_has_a_version_that_it_allows(package: str) -> None:
    project = tomllib.loads((FILE.parent / package).read_text(encoding="utf-8"))
    named = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    named += [line for extra in project["project"].get("optional-dependencies", {}).values() for line in extra]
    wanted = [Requirement(line) for line in named]
    ours = [one for one in wanted if one.name.startswith("weft") or one.name == "torch"]
    missing = [str(one) for one in wanted if one not in ours and canonicalize_name(one.name) not in PINNED]
    assert missing == []
    refused = [
        str(one) for one in wanted if one not in ours and PINNED[canonicalize_name(one.name)] not in one.specifier
    ]
    assert refused == []


def test_the_file_is_as_it_would_be_written() -> None:
    text = FILE.read_text(encoding="utf-8")
    assert constraints(text) == text


def test_only_what_an_index_has_is_taken() -> None:
    frozen = (
        "b==1.0\n# Editable install with no version control (weft==0.1.0)\n-e /somewhere\nA==2\ntorch==2.13.0+cpu\n"
    )
    frozen += "own @ file:///somewhere/own.whl\n"
    assert constraints(frozen).splitlines()[1:] == ["A==2", "b==1.0"]
