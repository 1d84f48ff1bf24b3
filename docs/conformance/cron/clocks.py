"""The blocks "changes of the clocks" and "hash" of cron.tsv: every minute of real time is looked at, and no arithmetic of zones is done.

It shares nothing with internal/cron: zones are read by Python's zoneinfo, expressions by the few lines below.
    python3 clocks.py > clocks.tsv    (half a minute)
"""
import functools
import hashlib
import itertools
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

MINUTE, UTC = timedelta(minutes=1), timezone.utc
NAMES, LIMITS = ("minute", "hour", "day of month", "month", "day of week"), ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))


def spread(ident, name, n):
    return int.from_bytes(hashlib.sha256(f"{ident} {name}".encode()).digest()[:8], "big") % n


def part(text, i, ident):
    low, high = LIMITS[i]
    body, _, step = text.partition("/")
    if body[0] == "H":
        if i == 2:
            high = 28
        if body != "H":
            low, high = map(int, body[2:-1].split("-"))
        if not step:
            return {low + spread(ident, NAMES[i], high - low + 1)}
        return set(range(low + spread(ident, NAMES[i], int(step)), high + 1, int(step)))
    if "-" in body:
        low, high = map(int, body.split("-"))
    elif body != "*":
        low, high = int(body), high if step else int(body)
    return set(range(low, high + 1, int(step or 1)))


class Expression:
    def __init__(self, text, ident):
        self.written = text.split()
        self.sets = [set().union(*(part(p, i, ident) for p in field.split(","))) for i, field in enumerate(self.written)]
        stepped = any(c in p for p in self.written[0].split(",") for c in "*/") and len(self.sets[0]) > 1
        self.periodic = stepped or len(self.sets[1]) == 24

    def matches(self, wall):
        minute, hour, dom, month, dow = self.sets
        if wall.minute not in minute or wall.hour not in hour or wall.month not in month:
            return False
        days = wall.day in dom, (wall.weekday() + 1) % 7 in dow
        return all(days) if "*" in (self.written[2], self.written[4]) else any(days)


@functools.cache
def watched(zone, after, until):
    """What the wall shows each minute, and what it leaves out: [(moment, wall)], [(moment behind the gap, wall)]."""
    shown, left_out, last = [], [], None
    moment = after - timedelta(days=3)
    while moment <= until + timedelta(days=3):
        wall = moment.astimezone(zone).replace(tzinfo=None)
        if last is not None:
            missing = last + MINUTE
            while missing < wall:  # the clock was put forward
                left_out.append((moment, missing))
                missing += MINUTE
        shown.append((moment, wall))
        last = wall
        moment += MINUTE
    return shown, left_out


def slots(zone, expression, gap, overlap, after, until):
    gap = gap or ("skip" if expression.periodic else "after")
    overlap = overlap or ("both" if expression.periodic else "first")
    shown, left_out = watched(zone, after, until)
    times, found = {}, set()
    for moment, wall in shown:
        if expression.matches(wall):
            times.setdefault(wall, []).append(moment)
    for moments in times.values():
        found.update({"first": moments[:1], "second": moments[-1:], "both": moments}[overlap])
    for moment, wall in left_out:
        if gap != "skip" and expression.matches(wall):
            found.add(moment if gap == "after" else moment - MINUTE)
    return sorted(at for at in found if after < at <= until)


def change(zone, around):
    """The first moment behind the change of offset within two days of a date."""
    moment = datetime.fromisoformat(around).replace(tzinfo=UTC) - timedelta(days=1)
    while (moment - MINUTE).astimezone(zone).utcoffset() == moment.astimezone(zone).utcoffset():
        moment += MINUTE
    return moment


def stamp(moment):
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def row(zone, expression, ident, gap, overlap, after, until):
    all_slots = slots(ZoneInfo(zone), Expression(expression, ident), gap, overlap, after, until)
    print(zone, expression, ident, gap or "-", overlap or "-", stamp(after), stamp(until), " ".join(map(stamp, all_slots)) or "-", sep="\t")


CHANGES = [
    ("Europe/Berlin", "2026-03-29", "2026-10-25"), ("America/New_York", "2026-03-08", "2026-11-01"),
    ("Europe/Dublin", "2026-03-29", "2026-10-25"), ("Europe/London", "2040-03-25", "2040-10-28"),
    ("America/St_Johns", "2026-03-08", "2026-11-01"), ("America/St_Johns", "2006-04-02", "2006-10-29"),
    ("Australia/Lord_Howe", "2026-10-04", "2026-04-05"), ("Pacific/Chatham", "2026-09-27", "2026-04-05"),
    ("Antarctica/Troll", "2026-03-29", "2026-10-25"), ("America/Sao_Paulo", "2018-11-04", "2018-02-18"),
    ("Asia/Beirut", "2022-03-27", "2022-10-30"), ("America/Havana", "2026-03-08", "2026-11-01"),
    ("Africa/Casablanca", "2024-04-14", "2024-03-10"), ("Africa/Cairo", "2024-04-26", "2024-11-01"),
    ("Asia/Pyongyang", "2018-05-05", "2015-08-15"), ("America/Caracas", "2016-05-01", "2007-12-09"),
    ("Pacific/Apia", "2011-12-30", "2011-04-03"),
]


def main():
    print("# block: changes of the clocks")
    for zone, forward, back in CHANGES:
        for around, gaps, overlaps in (forward, ("", "after", "skip", "before"), ("",)), (back, ("",), ("", "first", "second", "both")):
            at = change(ZoneInfo(zone), around)
            old, new = ((at - timedelta(seconds=s)).astimezone(ZoneInfo(zone)).replace(tzinfo=None) for s in (1, 0))
            begin, end = sorted((old + timedelta(seconds=1), new))  # what is left out, or shown twice
            middle = begin + (end - begin) / 2
            if (end - begin) > timedelta(hours=3):
                middle = begin + timedelta(hours=10)
            often = at - timedelta(hours=2, minutes=7), at + timedelta(hours=2, minutes=7)
            half = at - timedelta(hours=5), at + timedelta(hours=5)
            daily = at - timedelta(days=2), at + timedelta(days=2)
            for gap, overlap in itertools.product(gaps, overlaps):
                fixed = f"{middle.minute} {middle.hour} * * *"
                for expression, (after, until) in {
                    fixed: daily, f"{begin.minute} {begin.hour} * * *": daily,
                    f"{middle.minute},{(middle.minute + 11) % 60} {middle.hour} * * *": daily,
                    f"{middle.minute} {middle.hour} {middle.day} * *": daily,
                    f"{middle.minute} */2 * * *": half, f"*/20 {middle.hour} * * *": daily,
                    "*/20 * * * *": often, "7/25 * * * *": often, "30 * * * *": often,
                }.items():
                    row(zone, expression, 1, gap, overlap, after, until)
    start = datetime(2026, 6, 1, 12, tzinfo=UTC)
    for zone in "UTC", "Asia/Kolkata", "Asia/Kathmandu":  # no change: nothing but the offset
        for expression in "0 3 * * *", "*/20 * * * *", "30 5 * * 1-5":
            row(zone, expression, 1, "", "", start, start + timedelta(hours=2 if expression[0] == "*" else 96))
    print("# block: hash")
    for ident in 1, 2, 42, 2147483647:
        for expression in "H H * * *", "H/15 * * * *", "H(0-29)/10 * * * *", "H H(0-7) * * *", "H H H * *", "H H * * H", "H H(8-15)/2 * * 1-5", "H 4 H(1-7) H *", "0 0 H/5 * *":
            days = {"H/15 * * * *": 0.1, "H(0-29)/10 * * * *": 0.2, "H H H * *": 95, "H H * * H": 30, "H 4 H(1-7) H *": 800, "0 0 H/5 * *": 40}.get(expression, 4)
            row("UTC", expression, ident, "", "", start, start + timedelta(days=days))


if __name__ == "__main__":
    main()
