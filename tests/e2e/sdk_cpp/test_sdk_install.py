"""The C++ SDK as a package: installed, found by CMake and pkg-config, and the README's program built and run with it."""

import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
COMPILER = os.environ.get("SDK_CPP_COMPILER", "clang++-19")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    prefix = tmp_path_factory.mktemp("prefix")
    subprocess.run(["cmake", "--install", os.environ["SDK_CPP_BUILD"], "--component", "sdk", "--prefix", str(prefix)],
                   check=True, stdout=subprocess.DEVNULL)
    return prefix


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    text = (ROOT / "sdks/cpp/README.md").read_text()
    code = re.search(r"```cpp\n(.*?)```", text, re.DOTALL)[1]
    assert 'image = "python:3.12"' in code and len(code.splitlines()) <= 13
    source = tmp_path_factory.mktemp("program") / "program.cc"
    source.write_text(code.replace("python:3.12", "host"))
    return source


def run(server, binary):
    done = subprocess.run([binary], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120,
                          env={**os.environ, "OPEN_SANDBOX_DOMAIN": f"127.0.0.1:{server.port}",
                               "OPEN_SANDBOX_API_KEY": server.key})
    assert (done.stdout, done.returncode) == ("hello from Linux\n", 0)


def test_find_package(server, installed, program, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(f"""cmake_minimum_required(VERSION 3.25)
project(consumer CXX)
find_package(OpenSandbox 0.1 REQUIRED)
add_executable(program {program})
target_link_libraries(program PRIVATE OpenSandbox::opensandbox)
""")
    subprocess.run(["cmake", "-G", "Ninja", "-B", "build", f"-DCMAKE_PREFIX_PATH={installed}",
                    f"-DCMAKE_CXX_COMPILER={COMPILER}"], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", "build"], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
    run(server, tmp_path / "build" / "program")


def test_pkg_config(server, installed, program, tmp_path):
    # Wherever the prefix was moved to.
    moved = tmp_path / "moved"
    os.rename(installed, moved)
    try:
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "opensandbox"], check=True, stdout=subprocess.PIPE,
                               text=True, env={**os.environ, "PKG_CONFIG_PATH": str(moved / "lib" / "pkgconfig")})
        version = subprocess.run(["pkg-config", "--modversion", "opensandbox"], check=True, stdout=subprocess.PIPE,
                                 text=True, env={**os.environ, "PKG_CONFIG_PATH": str(moved / "lib" / "pkgconfig")})
        assert re.fullmatch(r"\d+\.\d+\.\d+\n", version.stdout)
        subprocess.run([COMPILER, "-std=c++23", "-Wall", "-Wextra", "-Werror", str(program), *flags.stdout.split(), "-o",
                        str(tmp_path / "program")], check=True)
    finally:
        os.rename(moved, installed)
    run(server, tmp_path / "program")
