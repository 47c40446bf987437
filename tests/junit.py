"""junit.py FILE: "passed failed skipped" of a JUnit file that ctest wrote. One ctest test is one binary."""

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


if __name__ == "__main__":
    print(*count(sys.argv[1]))
