#!/usr/bin/env python3
"""Nominal times against an independent implementation: croniter for the rules, zoneinfo for the zones.

usage: cron_vectors.py CALENDAR_TOOL [--count N] [--seed N] [--points N] [--answers FILE [--write]]

Random rules, in 20 zones, with each `dst`, over the 200 years from 1926 to 2126. croniter gives the local times that a rule names; zoneinfo says of each
whether the clock shows it once, twice or never, and the meaning of `dst` (engine/serve/schedule/calendar.h) is written down here a second time. A rule that fires
often is compared in windows that lie anywhere in the 200 years, half of them around a transition; a rare one over all of them.

croniter takes most of a minute for what the tool answers in one second. So --write puts what was asked, and digests of what croniter and zoneinfo
say to it, into FILE; with --answers alone the tool is asked the same and its answers must have these digests. FILE counts for the script, the
arguments and the zones' files that it was made with, to the byte: for others, and as soon as one answer differs, all is computed.

No rule and no window is left out. What croniter spells otherwise, or doesn't know, is rewritten for it, a row for each in DIFFERENCES; a row that no
rule has used is a failure, so that the table can't grow stale.
"""
import argparse
import bisect
import datetime as dt
import hashlib
import os
import random
import re
import subprocess
import sys
import zoneinfo

try:
    from croniter import croniter
except ImportError:
    croniter = None  # answers that are on record need none

ZONES = ["UTC", "Europe/Berlin", "Europe/London", "Europe/Dublin", "America/New_York", "America/Los_Angeles", "America/Sao_Paulo", "America/Santiago",
         "America/St_Johns", "Australia/Lord_Howe", "Australia/Sydney", "Pacific/Apia", "Pacific/Chatham", "Pacific/Kiritimati", "Asia/Kolkata",
         "Asia/Kathmandu", "Asia/Tehran", "Africa/Casablanca", "Antarctica/Troll", "America/Caracas"]
FIRST, LAST = dt.datetime(1926, 1, 1), dt.datetime(2126, 1, 1)
EPOCH = dt.datetime(1970, 1, 1)
WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]

# What croniter does otherwise, and what is done about it.
DIFFERENCES = {
    "5L": "croniter writes the last Friday L5",
    "friL": "croniter knows no names there",
    "fri#2": "croniter knows no names there",
    "L-3": "croniter has no days before the last: every day is asked for, and what isn't such a day is left out",
    "L-3 or weekday": "the same where either day field will do: both rules are asked alone and put together",
    "L or weekday": "croniter lets L and a weekday restrict each other: either will do, as with any other day",
    "?": "croniter takes ? for `not this field` in one of the day fields; here it is a star",
    "star/2": "a day field that begins with a star makes both fields count (Vixie cron): croniter's implement_cron_bug; with # or L its own day is filtered",
    "a/n": "croniter reads 5/10 as 5-59/10 in minutes only",
    "fri-sun": "croniter doesn't go on from Saturday to Sunday",
    "two specials": "croniter refuses lists that mix weekdays with # or L: each is asked alone and put together",
    "@every": "croniter knows no intervals: they are multiples",
}
used = set()


# --- rules -------------------------------------------------------------------------------------------------------------------------------

def number(r, low, high, names=None, first=0):
    v = r.randint(low, high)
    if names and r.random() < 0.4 and v - first < len(names):
        return v, r.choice([str.lower, str.upper, str.title])(names[v - first])
    return v, str(v)


def item(r, low, high, names=None, first=0):
    """Text and the set that it stands for."""
    kind = r.random()
    a, text = number(r, low, high, names, first)
    if kind < 0.5:
        return text, {a}
    if kind < 0.8:
        b, end = number(r, a, high, names, first)
        step = r.randint(1, 5) if r.random() < 0.3 else 1
        return f"{text}-{end}" + (f"/{step}" if step > 1 else ""), set(range(a, b + 1, step))
    step = r.randint(1, high)
    return f"{text}/{step}", set(range(a, high + 1, step))


def field(r, low, high, star, names=None, first=0):
    if r.random() < star:
        return "*", set(range(low, high + 1))
    if r.random() < 0.15:
        step = r.randint(1, min(high, 20))
        return f"*/{step}", set(range(low, high + 1, step))
    parts = [item(r, low, high, names, first) for _ in range(r.choice([1, 1, 1, 2, 3]))]
    return ",".join(p[0] for p in parts), set().union(*(p[1] for p in parts))


class Rule:
    def __init__(self, r):
        self.every = 0
        if r.random() < 0.03:
            self.every = r.choice([60, 90, 600, 3600, 7000, 86400, 100000])
            self.text = f"@every {self.every}s"
            return
        self.minute_text, self.minutes = field(r, 0, 59, 0.1)
        self.hour_text, self.hours = field(r, 0, 23, 0.15)
        self.month_text, self.months = field(r, 1, 12, 0.6, MONTHS, 1)
        self.day_text, self.days = field(r, 1, 31, 0.5)
        self.last_days, self.last_weekdays, self.nth = set(), set(), set()
        if r.random() < 0.12:
            k = r.choice([0, 0, 1, 3, 10])
            self.day_text, self.days, self.last_days = f"L-{k}" if k else "L", set(), {k}
            if r.random() < 0.4:
                self.day_text, self.days = self.day_text + ",3", {3}
        elif r.random() < 0.05:
            self.day_text, self.days = "?", set(range(1, 32))
        self.week_text, week = field(r, 0, 6, 0.5, WEEKDAYS, 0)
        kind = r.random()
        if kind < 0.06:
            self.week_text, week = "fri-sun", {5, 6, 0}
        elif kind < 0.12:
            n = r.randrange(7)
            self.week_text, week, self.last_weekdays = (f"{n}L", set(), {n}) if r.random() < 0.5 else (WEEKDAYS[n] + "L", set(), {n})
        elif kind < 0.2:
            d, n = r.randrange(7), r.randint(1, 5)
            self.week_text, week, self.nth = (f"{d}#{n}" if r.random() < 0.5 else f"{WEEKDAYS[d]}#{n}"), set(), {(d, n)}
            if r.random() < 0.3:
                self.week_text, week = self.week_text + ",2", {2}
        elif kind < 0.23:
            self.week_text, week = "?", set(range(7))
        self.week = {d % 7 for d in week}
        self.text = " ".join([self.minute_text, self.hour_text, self.day_text, self.month_text, self.week_text])

    def interval(self):
        return self.every or len(self.hours) == 24

    # --- the same for croniter: a list of (rule, filter) whose union it is ------------------------------------------------------

    def plain(self, values, low, high):
        return "*" if len(values) == high - low + 1 else ",".join(map(str, sorted(values)))

    def for_croniter(self):
        """Rules of croniter and conditions on the day; what any of them gives counts."""
        if re.search(r"(^|,)[0-9a-z]+/", " ".join(self.text.split())):
            used.add("a/n")
        if "?" in self.text:
            used.add("?")
        if "fri-sun" in self.text:
            used.add("fri-sun")
        head = f"{self.plain(self.minutes, 0, 59)} {self.plain(self.hours, 0, 23)}"
        months = self.plain(self.months, 1, 12)
        star_day, star_week = self.day_text[0] in "*?", self.week_text[0] in "*?"
        both = star_day or star_week

        def is_last(k):
            return lambda t: (t + dt.timedelta(days=k + 1)).day == 1

        days = [(self.plain(self.days, 1, 31), None)] if self.days else []
        for k in self.last_days:
            used.add("L-3") if k else None
            days.append(("*", is_last(k)) if k else ("L", None))
        weeks = [(self.plain(self.week, 0, 6), None)] if self.week else []
        for d in self.last_weekdays:
            used.add("5L" if self.week_text[0].isdigit() else "friL")
            weeks.append((f"L{d}", None))
        for d, n in self.nth:
            used.add("fri#2") if self.week_text[0].isalpha() else None
            weeks.append((f"{d}#{n}", None))
        if len(weeks) > 1:
            used.add("two specials")
        if both:
            if (self.day_text[0] == "*" and len(self.day_text) > 1) or (self.week_text[0] == "*" and len(self.week_text) > 1):
                used.add("star/2")
            return [(f"{head} * {months} {w}", self.day_filter(d, f)) for d, f in days for w, _ in weeks]
        if self.last_days:
            used.add("L or weekday" if 0 in self.last_days else "L-3 or weekday")
        return [(f"{head} {d} {months} *", f) for d, f in days] + [(f"{head} * {months} {w}", None) for w, _ in weeks]

    @staticmethod
    def day_filter(text, condition):
        if condition:
            return condition
        if text == "*":
            return None
        if text == "L":
            return lambda t: (t + dt.timedelta(days=1)).day == 1
        wanted = {int(d) for d in text.split(",")}
        return lambda t: t.day in wanted

    def local_times(self, start, end, limit):
        """Sorted local times in (start, end], at most about `limit`; and up to where they are all."""
        times, until = set(), end
        for text, condition in self.for_croniter():
            mine = []
            for t in croniter(text, start, ret_type=dt.datetime, max_years_between_matches=60).all_next(dt.datetime):
                if t > end:
                    break
                if condition is None or condition(t):
                    mine.append(t)
                if len(mine) >= limit:
                    until = min(until, t)
                    break
            times.update(mine)
        return sorted(t for t in times if t <= until), until


# --- zones ---------------------------------------------------------------------------------------------------------------------------------

def seconds(t):
    return int((t - EPOCH).total_seconds())


def offset_at(zone, unix):
    return int((EPOCH.replace(tzinfo=dt.timezone.utc) + dt.timedelta(seconds=unix)).astimezone(zone).utcoffset().total_seconds())


def jump_between(zone, low, high):
    """The instant in (low, high] at which the offset changes."""
    before = offset_at(zone, low)
    while high - low > 1:
        middle = (low + high) // 2
        if offset_at(zone, middle) == before:
            low = middle
        else:
            high = middle
    return high


def instants(zone, local, dst, interval):
    """Unix times at which a local time fires. The clock shows local time u + offset(u)."""
    wall = seconds(local)
    offsets = {offset_at(zone, wall - 86400 * 2), offset_at(zone, wall + 86400 * 2), offset_at(zone, wall - 50400), offset_at(zone, wall + 50400),
               offset_at(zone, wall)}
    shown = sorted(wall - o for o in offsets if offset_at(zone, wall - o) == o)
    if shown:
        return shown if interval or dst == "twice" else shown[:1]
    if interval or dst == "skip":
        return []
    return [jump_between(zone, wall - max(offsets), wall - min(offsets))]


def transitions(zone, r, n):
    """Some instants near which the offset of the zone changes, anywhere in the 200 years."""
    found = []
    for _ in range(200):
        t = r.randint(seconds(FIRST), seconds(LAST) - 190 * 86400)
        if offset_at(zone, t) != offset_at(zone, t + 180 * 86400):
            found.append(jump_between(zone, t, t + 180 * 86400))
        if len(found) == n:
            break
    return found


# --- answers on record ---------------------------------------------------------------------------------------------------------------------------

def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def made_with(a):
    """What the answers depend on besides the tool: this script, its arguments, the zones."""
    h = hashlib.sha256(f"{a.count} {a.seed} {a.points}".encode())
    with open(__file__, "rb") as f:
        h.update(f.read())
    for name in ZONES:
        path = next((p for p in (f"{d}/{name}" for d in zoneinfo.TZPATH) if os.path.isfile(p)), None)
        if not path:
            return None
        with open(path, "rb") as f:
            h.update(hashlib.sha256(f.read()).digest())
    return h.hexdigest()


def write_answers(path, a, asked, said):
    """The answers that croniter and zoneinfo agree with: nothing is written otherwise."""
    with open(path, "w", encoding="ascii") as out:
        out.write(f"{made_with(a)}\n{said}\n")
        out.writelines(f"{digest(answer)}\t{question}\n" for question, answer in asked)


def on_record(path, a, tool):
    """What the comparison said when the answers were written; None when they don't count, or the tool answers otherwise."""
    with open(path, encoding="ascii") as f:
        made, said, *rows = f.read().splitlines()
    if made != made_with(a):
        print("the answers on record are of another script, other arguments or other zones")
        return None
    for row in rows:
        want, *question = row.split("\t")
        if digest(tool.ask(*question)) != want:
            print(f"not as on record: {question}")
            return None
    return said if rows else None


# --- the comparison --------------------------------------------------------------------------------------------------------------------------

def wanted(rule, zone, dst, start, until_local, locals_):
    """From local times to instants later than `start` and before anything that the local times don't reach."""
    result = set()
    for t in locals_:
        result.update(instants(zone, t, dst, rule.interval()))
    limit = seconds(until_local) - 2 * 86400
    return sorted(u for u in result if start < u <= limit), limit


def tell(rule, zone_name, dst, got, want):
    at = next(i for i in range(max(len(got), len(want))) if got[i:i + 1] != want[i:i + 1])
    show = [dt.datetime.fromtimestamp(v[at], zoneinfo.ZoneInfo(zone_name)).isoformat() if at < len(v) else "nothing" for v in (got, want)]
    print(f"`{rule.text}` in {zone_name}, dst {dst}: {show[0]} instead of {show[1]}")


class Tool:
    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.asked = []  # what, and its answer

    def ask(self, zone, dst, start, end, limit, text):
        question = f"{zone}\t{dst}\t{start}\t{end}\t{limit}\t{text}"
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        self.asked.append((question, answer))
        return answer


def windows(rule, zone, r, points):
    """Where to look: one stretch of the 200 years from a random place on, and one that has a transition in it."""
    span = (LAST - FIRST).total_seconds()
    starts = [FIRST + dt.timedelta(seconds=r.randint(0, int(span * 0.9)))]
    for t in transitions(zone, r, 1):
        starts.append(EPOCH + dt.timedelta(seconds=t - r.randint(0, 3) * 86400 - 3600))
    rare = len(rule.minutes) * len(rule.hours) == 1 and (not rule.week or len(rule.week) < 7 or len(rule.months) < 3) if not rule.every else False
    if rare and len(rule.months) <= 2:
        starts = [FIRST]
    return [(s, points if s is not FIRST else points * 4) for s in starts]


def compare(tool, rule, zone_name, dst, r, points):
    zone, compared = zoneinfo.ZoneInfo(zone_name), 0
    if rule.every:
        used.add("@every")
        start = r.randint(seconds(FIRST), seconds(LAST))
        want = [(start // rule.every + 1 + i) * rule.every for i in range(points)]
        got = list(map(int, tool.ask(zone_name, dst, start, start + rule.every * (points + 1), points, rule.text).split()))
        if got != want:
            tell(rule, zone_name, dst, got, want)
            return -1
        return points
    for local_start, limit in windows(rule, zone, r, points):
        start = seconds(local_start)
        locals_, until = rule.local_times(local_start - dt.timedelta(days=3), LAST, limit)
        want, end = wanted(rule, zone, dst, start, until, locals_)
        answer = tool.ask(zone_name, dst, start, end, 10 * limit, rule.text)
        if answer.startswith("error"):
            print(f"`{rule.text}`: {answer}")
            return -1
        got = list(map(int, answer.split()))
        if got != want:
            tell(rule, zone_name, dst, got, want)
            return -1
        compared += len(want)
    return compared


def main():
    p = argparse.ArgumentParser()
    p.add_argument("tool")
    p.add_argument("--count", type=int, default=600)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--points", type=int, default=150)
    p.add_argument("--answers", metavar="FILE")
    p.add_argument("--write", action="store_true")
    a = p.parse_args()
    if a.answers and not a.write:
        said = on_record(a.answers, a, Tool(a.tool))
        if said:
            print(said)
            return 0
    r, tool, failed, total, impossible = random.Random(a.seed), Tool(a.tool), 0, 0, 0
    for i in range(a.count):
        rule, zone, dst = Rule(r), ZONES[i % len(ZONES)], ["once", "skip", "twice"][i // len(ZONES) % 3]
        if not rule.every and tool.ask("UTC", "once", 0, 1, 1, rule.text).endswith("would never fire"):
            impossible += 1
            assert possible_days(rule) == 0, f"`{rule.text}` was refused, but has days"
            continue
        n = compare(tool, rule, zone, dst, r, a.points)
        failed += n < 0
        total += max(n, 0)
    for key in DIFFERENCES.keys() - used:
        if a.count >= 600:
            print(f"the difference `{key}` was not met by any rule")
            failed += 1
    said = f"{a.count} rules ({impossible} of them without a day), {len(ZONES)} zones: {total} times compared, {failed} rules differ"
    print(said)
    if failed or not total:
        return 1
    if a.write:
        write_answers(a.answers, a, tool.asked, said)
    return 0


def possible_days(rule):
    """Counted day by day over 28 years."""
    n, day = 0, dt.datetime(2000, 1, 1)
    for _ in range(28 * 366):
        weekday, length = day.isoweekday() % 7, ((day.replace(day=28) + dt.timedelta(days=4)).replace(day=1) - dt.timedelta(days=1)).day
        by_day = day.day in rule.days or length - day.day in rule.last_days
        by_week = weekday in rule.week or (weekday in rule.last_weekdays and day.day + 7 > length) or (weekday, (day.day + 6) // 7) in rule.nth
        star = rule.day_text[0] in "*?" or rule.week_text[0] in "*?"
        n += day.month in rule.months and ((by_day and by_week) if star else (by_day or by_week))
        day += dt.timedelta(days=1)
    return n


if __name__ == "__main__":
    sys.exit(main())
