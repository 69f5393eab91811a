"""check_table.py notices each kind of drift."""

import check_table
from table import frames_table

CELLS = {"native": "3", "docker": "**1 of 2**"}
PAGE = "\n".join(["## Files", "", "`test_files.py`. Behind it stands: ids.", "",
                  "| attack | by | " + " | ".join(check_table.KINDS.values()) + " |",
                  "|---|---|" + "---:|" * len(check_table.KINDS),
                  "| a file is not read | code in the sandbox | "
                  + " | ".join(CELLS.get(kind, "–") for kind in check_table.KINDS) + " |"])
KEY = ("test_files.py", "a file is not read")


def drift(**found):
    page = check_table.written(PAGE)
    return list(check_table.differences({kind: found.get(kind, {}) for kind in check_table.KINDS}, page))


def test_a_page_that_agrees_has_no_differences():
    assert drift(native={KEY: 3}, docker={KEY: 2}) == []


def test_a_new_attack_a_lost_attack_and_another_number_are_named():
    assert drift(native={KEY: 3, ("test_files.py", "new"): 1}, docker={KEY: 2}) == \
        ["native: test_files.py: new: 1 ways in the tests, 0 in the page"]
    assert drift(native={KEY: 3}) == ["Docker: test_files.py: a file is not read: 0 ways in the tests, 2 in the page"]
    assert drift(native={KEY: 4}, docker={KEY: 2}) == \
        ["native: test_files.py: a file is not read: 4 ways in the tests, 3 in the page"]


def test_attacks_by_frames_are_compared_too():
    source = "TEST_F(H2Attack, TrashEndsTheConnection) {\n}\nTEST_F(H2Attack, ConnectIsNotPassedOn) {\n"
    page = frames_table({"trash ends the connection": True, "connect is not passed on": True})
    assert list(check_table.differences_of_frames(source, page)) == []
    page = frames_table({"trash ends the connection": True, "gone": False})
    assert list(check_table.differences_of_frames(source, page)) == [
        "h2_attack_test.cc: connect is not passed on: not in the page", "h2_attack_test.cc: gone: in the page only"]
