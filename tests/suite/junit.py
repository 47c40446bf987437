"""suite/junit.py FILE: "passed failed skipped" of a JUnit file that ctest wrote. One ctest test is one binary.
suite/junit.py --slow FILE: "seconds name" of each. suite/junit.py --passed FILE: the names of those that passed."""

import sys
import xml.etree.ElementTree as xml


def count(path):
    passed = failed = skipped = 0
    for case in xml.parse(path).getroot().iter("testcase"):
        status, skip = case.get("status"), case.find("skipped")
        if status == "run" and case.find("failure") is None:
            passed += 1
        elif status == "disabled" or (skip is not None and skip.get("message", "").startswith("SKIP_")):
            skipped += 1
        else:
            failed += 1  # a missing executable and anything unknown too
    return passed, failed, skipped


def slow(path):
    for case in xml.parse(path).getroot().iter("testcase"):
        print(round(float(case.get("time") or 0)), case.get("name"))


def passed(path):
    for case in xml.parse(path).getroot().iter("testcase"):
        if case.get("status") == "run" and case.find("failure") is None:
            print(case.get("name"))


if __name__ == "__main__":
    if sys.argv[1] == "--slow":
        slow(sys.argv[2])
    elif sys.argv[1] == "--passed":
        passed(sys.argv[2])
    else:
        print(*count(sys.argv[1]))
