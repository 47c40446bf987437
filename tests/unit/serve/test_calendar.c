/* Nominal times on real transitions of several zones, under each `dst`; zone files that are broken;
 * rules of local time. */
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include "base/os/fs.h"
#include "base/text/text.h"
#include "serve/schedule/calendar.h"
#include "serve/schedule/zonefile.h"

static struct zone_set *zones;

static int64_t at(const char *text)
{
	int64_t ns;

	assert_int_equal(text_parse_time(text, &ns, NULL), 0);
	return ns;
}

static struct calendar calendar(const char *cron, const char *zone, const char *dst)
{
	struct schedule_decl d = { .name = "x", .cron = cron, .timezone = zone, .dst = dst };
	struct err err = { 0 };
	struct calendar c;

	if (calendar_of(&d, zones, &c, &err) < 0)
		fail_msg("%s", err.msg);
	return c;
}

/* Firings later than `from` up to `to`, as UTC without the year and the seconds that are zero. */
static void expect(const char *cron, const char *zone, const char *dst, const char *from,
		   const char *to, const char *want)
{
	struct calendar c = calendar(cron, zone, dst);
	struct str got = { 0 };

	str_add(&got, "");
	for (int64_t t = calendar_next(&c, at(from)); t <= at(to); t = calendar_next(&c, t)) {
		struct str one = { 0 };

		text_add_time(&one, t, 0);
		str_addf(&got, "%s%.11s", got.len ? " " : "", one.s + 5);
		str_deinit(&one);
	}
	if (!str_eq(got.s, want))
		fail_msg("`%s` in %s, dst %s, from %s:\n got  %s\n want %s", cron, zone, dst, from,
			 got.s, want);
	str_deinit(&got);
}

/* One row a case. Times are UTC. */
static const struct {
	const char *cron, *zone, *from, *to, *once, *skip, *twice;
} odd_nights[] = {
	/* Berlin: 2026-03-29 02:00 → 03:00 at 01:00Z; 2026-10-25 03:00 → 02:00 at 01:00Z */
	{ "30 2 * * *", "Europe/Berlin", "2026-03-27T12:00Z", "2026-03-30T12:00Z",
	  "03-28T01:30 03-29T01:00 03-30T00:30", "03-28T01:30 03-30T00:30",
	  "03-28T01:30 03-29T01:00 03-30T00:30" },
	{ "30 2 * * *", "Europe/Berlin", "2026-10-24T12:00Z", "2026-10-26T12:00Z",
	  "10-25T00:30 10-26T01:30", "10-25T00:30 10-26T01:30",
	  "10-25T00:30 10-25T01:30 10-26T01:30" },
	/* two skipped times are one firing, and none beside a time that is named for the very end
	   of the jump */
	{ "0,30 2 * * *", "Europe/Berlin", "2026-03-28T12:00Z", "2026-03-29T12:00Z", "03-29T01:00",
	  "", "03-29T01:00" },
	{ "30 2,3 * * *", "Europe/Berlin", "2026-03-28T12:00Z", "2026-03-29T12:00Z",
	  "03-29T01:00 03-29T01:30", "03-29T01:30", "03-29T01:00 03-29T01:30" },
	{ "0 2,3 * * *", "Europe/Berlin", "2026-03-28T12:00Z", "2026-03-29T12:00Z", "03-29T01:00",
	  "03-29T01:00", "03-29T01:00" },
	/* a rule that isn't for that day has nothing to make good */
	{ "30 2 28,30 * *", "Europe/Berlin", "2026-03-28T12:00Z", "2026-03-30T12:00Z",
	  "03-30T00:30", "03-30T00:30", "03-30T00:30" },
	/* every hour is an interval: it follows the clock */
	{ "30 * * * *", "Europe/Berlin", "2026-03-29T00:00Z", "2026-03-29T02:00Z",
	  "03-29T00:30 03-29T01:30", "03-29T00:30 03-29T01:30", "03-29T00:30 03-29T01:30" },
	{ "30 * * * *", "Europe/Berlin", "2026-10-25T00:00Z", "2026-10-25T02:00Z",
	  "10-25T00:30 10-25T01:30", "10-25T00:30 10-25T01:30", "10-25T00:30 10-25T01:30" },
	{ "30 1-4 * * *", "Europe/Berlin", "2026-10-24T23:00Z", "2026-10-25T04:00Z",
	  "10-24T23:30 10-25T00:30 10-25T02:30 10-25T03:30",
	  "10-24T23:30 10-25T00:30 10-25T02:30 10-25T03:30",
	  "10-24T23:30 10-25T00:30 10-25T01:30 10-25T02:30 10-25T03:30" },
	/* New York: 2026-03-08 at 07:00Z; 2026-11-01 at 06:00Z */
	{ "15 2 * * *", "America/New_York", "2026-03-07T12:00Z", "2026-03-09T12:00Z",
	  "03-08T07:00 03-09T06:15", "03-09T06:15", "03-08T07:00 03-09T06:15" },
	{ "15 1 * * *", "America/New_York", "2026-10-31T12:00Z", "2026-11-02T12:00Z",
	  "11-01T05:15 11-02T06:15", "11-01T05:15 11-02T06:15",
	  "11-01T05:15 11-01T06:15 11-02T06:15" },
	/* Lord Howe: half an hour. 2026-10-04 02:00 → 02:30 at 15:30Z the day before; 2026-04-05
	   02:00 → 01:30 at 15:00Z the day before */
	{ "10 2 * * *", "Australia/Lord_Howe", "2026-10-02T20:00Z", "2026-10-04T20:00Z",
	  "10-03T15:30 10-04T15:10", "10-04T15:10", "10-03T15:30 10-04T15:10" },
	{ "40 2 * * *", "Australia/Lord_Howe", "2026-10-02T20:00Z", "2026-10-03T20:00Z",
	  "10-03T15:40", "10-03T15:40", "10-03T15:40" },
	{ "45 1 * * *", "Australia/Lord_Howe", "2026-04-03T20:00Z", "2026-04-05T20:00Z",
	  "04-04T14:45 04-05T15:15", "04-04T14:45 04-05T15:15",
	  "04-04T14:45 04-04T15:15 04-05T15:15" },
	/* Santiago: south, at midnight. 2026-09-06 00:00 → 01:00 at 04:00Z; 2026-04-05 00:00 →
	   23:00 at 03:00Z */
	{ "0 0 * * *", "America/Santiago", "2026-09-04T12:00Z", "2026-09-07T12:00Z",
	  "09-05T04:00 09-06T04:00 09-07T03:00", "09-05T04:00 09-07T03:00",
	  "09-05T04:00 09-06T04:00 09-07T03:00" },
	{ "30 23 * * *", "America/Santiago", "2026-04-03T12:00Z", "2026-04-06T12:00Z",
	  "04-04T02:30 04-05T02:30 04-06T03:30", "04-04T02:30 04-05T02:30 04-06T03:30",
	  "04-04T02:30 04-05T02:30 04-05T03:30 04-06T03:30" },
	/* Apia went over the date line: there was no 30 December 2011; the day before ended at
	   10:00Z */
	{ "0 3 * * *", "Pacific/Apia", "2011-12-28T14:00Z", "2012-01-01T00:00Z",
	  "12-29T13:00 12-30T10:00 12-30T13:00 12-31T13:00", "12-29T13:00 12-30T13:00 12-31T13:00",
	  "12-29T13:00 12-30T10:00 12-30T13:00 12-31T13:00" },
	{ "0 3 30 12 *", "Pacific/Apia", "2011-01-01T00:00Z", "2012-01-01T00:00Z", "12-30T10:00",
	  "", "12-30T10:00" },
	/* Far beyond the table of the file: the rule at its end */
	{ "30 2 * * *", "Europe/Berlin", "2100-03-27T12:00Z", "2100-03-29T12:00Z",
	  "03-28T01:00 03-29T00:30", "03-29T00:30", "03-28T01:00 03-29T00:30" },
	/* Dublin calls winter its summer time; Casablanca changes by the moon */
	{ "30 1 * * *", "Europe/Dublin", "2026-03-28T12:00Z", "2026-03-30T12:00Z",
	  "03-29T01:00 03-30T00:30", "03-30T00:30", "03-29T01:00 03-30T00:30" },
	{ "30 2 * * *", "Africa/Casablanca", "2026-02-14T12:00Z", "2026-02-16T12:00Z",
	  "02-15T01:30 02-16T02:30", "02-15T01:30 02-16T02:30",
	  "02-15T01:30 02-15T02:30 02-16T02:30" },
	{ "@every 90m", "Europe/Berlin", "2026-03-29T00:00Z", "2026-03-29T04:30Z",
	  "03-29T01:30 03-29T03:00 03-29T04:30", "03-29T01:30 03-29T03:00 03-29T04:30",
	  "03-29T01:30 03-29T03:00 03-29T04:30" },
};

static void test_odd_nights(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(odd_nights); i++) {
		expect(odd_nights[i].cron, odd_nights[i].zone, "once", odd_nights[i].from,
		       odd_nights[i].to, odd_nights[i].once);
		expect(odd_nights[i].cron, odd_nights[i].zone, "skip", odd_nights[i].from,
		       odd_nights[i].to, odd_nights[i].skip);
		expect(odd_nights[i].cron, odd_nights[i].zone, "twice", odd_nights[i].from,
		       odd_nights[i].to, odd_nights[i].twice);
	}
}

static void test_bounds(void **state)
{
	struct calendar c = calendar("0 3 * * *", "UTC", "once");

	c.start_ns = at("2026-01-10T03:00Z");
	c.end_ns = at("2026-01-12T03:00Z");
	assert_int_equal(calendar_next(&c, 0), at("2026-01-10T03:00Z"));
	assert_int_equal(calendar_next(&c, at("2026-01-11T02:00Z")), at("2026-01-11T03:00Z"));
	assert_int_equal(calendar_next(&c, at("2026-01-11T03:00Z")), CALENDAR_NEVER);
	assert_int_equal(calendar_previous(&c, at("2030-01-01")), at("2026-01-11T03:00Z"));
	assert_int_equal(calendar_previous(&c, at("2026-01-10T03:00Z")), INT64_MIN);
	assert_int_equal(calendar_interval_start(&c, at("2026-01-10T03:00Z")),
			 at("2026-01-09T03:00Z"));
	c = calendar("0 0 29 2 *", "UTC", "once");
	assert_int_equal(calendar_previous(&c, at("2027-05-01")), at("2024-02-29"));
	assert_int_equal(calendar_next(&c, at("2261-01-01")), CALENDAR_NEVER);
	c = calendar("@every 1h", "UTC", "once");
	assert_int_equal(calendar_next(&c, -1), 0);
	assert_int_equal(calendar_next(&c, 0), 3600 * NS_PER_S);
	assert_int_equal(calendar_previous(&c, 0), -3600 * NS_PER_S);
}

/* previous() is next()'s other way round, for odd rules in odd zones. */
static void test_previous(void **state)
{
	static const char *const rules[] = { "30 2 * * *", "*/20 * * * *", "0 0 L * *",
					     "15 1 * * sun", "@every 7h" };
	static const char *const names[] = { "Europe/Berlin", "Australia/Lord_Howe",
					     "America/Santiago", "Pacific/Apia" };

	for (size_t i = 0; i < ARRAY_LEN(rules); i++)
		for (size_t k = 0; k < ARRAY_LEN(names); k++) {
			struct calendar c = calendar(rules[i], names[k], "twice");
			int64_t last = calendar_next(&c, at("2011-09-01"));

			for (int n = 0; n < 400; n++) {
				int64_t t = calendar_next(&c, last);

				assert_int_equal(calendar_previous(&c, t), last);
				assert_int_equal(calendar_previous(&c, last + 1), last);
				last = t;
			}
		}
}

static void test_jitter(void **state)
{
	int64_t a = calendar_jitter("p.yaml", "x", 1000, 600 * NS_PER_S), lowest = INT64_MAX,
		highest = 0;

	assert_int_equal(a, calendar_jitter("p.yaml", "x", 1000, 600 * NS_PER_S));
	assert_int_not_equal(a, calendar_jitter("p.yaml", "y", 1000, 600 * NS_PER_S));
	assert_int_not_equal(a, calendar_jitter("q.yaml", "x", 1000, 600 * NS_PER_S));
	assert_int_equal(calendar_jitter("p.yaml", "x", 1000, 0), 0);
	for (int64_t i = 0; i < 1000; i++) {
		int64_t j = calendar_jitter("p.yaml", "x", i, 600 * NS_PER_S);

		lowest = MIN(lowest, j);
		highest = MAX(highest, j);
	}
	assert_true(lowest >= 0 && lowest < 20 * NS_PER_S && highest > 580 * NS_PER_S &&
		    highest < 600 * NS_PER_S);
}

/* Zones. */

/* The C library, which reads the same files otherwise, agrees on the offset of moments in all
 * zones, far future included. */
static void test_against_libc(void **state)
{
	static const char *const names[] = {
		"Europe/Berlin",      "America/New_York",     "Australia/Lord_Howe",
		"America/Santiago",   "Pacific/Apia",         "Asia/Tehran",
		"Africa/Casablanca",  "America/Scoresbysund", "Antarctica/Troll",
		"Asia/Kathmandu",     "America/Caracas",      "Europe/Dublin",
		"Pacific/Kiritimati", "America/Godthab",      "Africa/Cairo"
	};
	uint64_t random = 88172645463325252ULL;

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct zone *z;
		struct err err = { 0 };

		if (zone_get(zones, names[i], &z, &err) < 0)
			fail_msg("%s", err.msg);
		setenv("TZ", names[i], 1);
		tzset();
		for (int n = 0; n < 3000; n++) {
			struct tm tm;
			time_t t;

			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			t = (time_t)(random % 11000000000ULL) - 2000000000; /* 1906 to 2255 */
			localtime_r(&t, &tm);
			if (zone_segment_at(z, t).offset_s != tm.tm_gmtoff)
				fail_msg("%s at %lld: %d, not %ld", names[i], (long long)t,
					 zone_segment_at(z, t).offset_s, tm.tm_gmtoff);
		}
	}
	setenv("TZ", "UTC", 1);
	tzset();
}

static void test_segments(void **state)
{
	struct zone *z;
	struct zone_segment s;

	assert_int_equal(zone_get(zones, "Europe/Berlin", &z, NULL), 0);
	s = zone_segment_at(z, at("2026-07-01") / NS_PER_S);
	assert_int_equal(s.offset_s, 7200);
	assert_int_equal(s.start_s, at("2026-03-29T01:00Z") / NS_PER_S);
	assert_int_equal(s.end_s, at("2026-10-25T01:00Z") / NS_PER_S);
	assert_int_equal(zone_shown_before(z, &s), s.start_s + 3600);
	s = zone_segment_at(z, s.end_s);
	assert_int_equal(s.offset_s, 3600);
	assert_int_equal(zone_shown_before(z, &s), s.start_s + 7200);
	assert_int_equal(zone_get(zones, "Nowhere/Land", &z, NULL), -1);
	assert_int_equal(zone_get(zones, "../etc/passwd", &z, NULL), -1);
	assert_int_equal(zone_get(zones, "Europe", &z, NULL), -1); /* a directory */
}

static const struct {
	const char *text;
	bool good;
} posix_rules[] = {
	{ "CET-1CEST,M3.5.0,M10.5.0/3", true },
	{ "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", true },
	{ "<-02>2<-01>,M3.5.0/-1,M10.5.0/0", true },
	{ "EST5EDT,0/0,J365/25", true },
	{ "UTC0", true },
	{ "IST-1GMT0,M10.5.0,M3.5.0/1", true },
	{ "CET-1CEST", false },
	{ "CET-1CEST,M3.5.0", false },
	{ "CET-1CEST,M13.5.0,M10.5.0", false },
	{ "CET-1CEST,M3.6.0,M10.5.0", false },
	{ "CE-1", false },
	{ "CET", false },
	{ "<+1030-10", false },
	{ "CET-1CEST,M3.5.0,M10.5.0/168", false },
	{ "CET-25", false },
	{ "CET-1CEST,J0,J365", false },
	{ "", false },
	{ "CET-1CEST,M3.5.0,M10.5.0x", false },
};

static void test_posix_rules(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(posix_rules); i++) {
		struct zone_rule r;

		if ((zone_rule_parse(posix_rules[i].text, &r, NULL) == 0) != posix_rules[i].good)
			fail_msg("`%s` is %s", posix_rules[i].text,
				 posix_rules[i].good ? "refused" : "taken");
	}
}

/* Summer time all the year: one begins at the very moment at which the other ends. */
static void test_all_year(void **state)
{
	struct zone z = { .has_rule = true };
	struct zone_segment s;

	assert_int_equal(zone_rule_parse("EST5EDT,0/0,J365/25", &z.rule, NULL), 0);
	for (int64_t t = at("2026-01-01") / NS_PER_S; t < at("2029-01-01") / NS_PER_S;
	     t += 86400 / 3) {
		s = zone_segment_at(&z, t);
		assert_int_equal(s.offset_s, -4 * 3600);
	}
}

/* Every cut of a real file, and bytes changed in it, give an error or a zone, never a crash. */
static void test_broken_files(void **state)
{
	struct str file = { 0 };
	struct err err = { 0 };
	struct zone *z;

	if (fs_read_file("/usr/share/zoneinfo/Europe/Berlin", MIB, &file, &err) < 0)
		fail_msg("%s", err.msg);
	for (size_t n = 0; n < file.len; n++) {
		_cleanup_(freep) char *exact = xmalloc(n ? n : 1);

		memcpy(exact, file.s, n);
		assert_int_equal(zone_parse(exact, n, &z, NULL), -1);
	}
	for (size_t i = 0; i < file.len; i++) {
		char old = file.s[i];

		file.s[i] = (char)(old ^ 0x55);
		if (zone_parse(file.s, file.len, &z, NULL) == 0) {
			zone_segment_at(z, 0);
			zone_segment_at(z, 5000000000);
			zone_free(z);
		}
		file.s[i] = old;
	}
	assert_int_equal(zone_parse(file.s, file.len, &z, &err), 0);
	zone_free(z);
	str_deinit(&file);
}

/* An update of tzdata is seen; a broken one changes nothing. */
static void test_refresh(void **state)
{
	char dir[TEST_DIR_MAX];
	struct str berlin = { 0 }, york = { 0 };
	struct zone_set *set;
	struct zone *z;

	test_dir(dir, sizeof(dir), "zones");
	assert_int_equal(fs_read_file("/usr/share/zoneinfo/Europe/Berlin", MIB, &berlin, NULL), 0);
	assert_int_equal(fs_read_file("/usr/share/zoneinfo/America/New_York", MIB, &york, NULL), 0);
	_cleanup_(freep) char *path = xasprintf("%s/Here", dir);
	assert_int_equal(fs_write_atomic(path, berlin.s, berlin.len, NULL), 0);
	set = zone_set_new(dir);
	assert_int_equal(zone_get(set, "Here", &z, NULL), 0);
	assert_int_equal(zone_segment_at(z, 0).offset_s, 3600);
	assert_int_equal(zone_refresh(set), 0);
	assert_int_equal(fs_write_atomic(path, york.s, york.len, NULL), 0);
	assert_int_equal(zone_refresh(set), 1);
	assert_int_equal(zone_segment_at(z, 0).offset_s, -5 * 3600);
	assert_int_equal(fs_write_atomic(path, "TZif nonsense", 13, NULL), 0);
	assert_int_equal(zone_refresh(set), 0);
	assert_int_equal(zone_segment_at(z, 0).offset_s, -5 * 3600);
	assert_int_equal(fs_remove_tree(dir, NULL), 0);
	assert_int_equal(zone_refresh(set), 0);
	assert_int_equal(zone_get(set, "UTC", &z, NULL), 0); /* always there */
	zone_set_free(set);
	str_deinit(&berlin);
	str_deinit(&york);
}

static int setup(void **state)
{
	zones = zone_set_new("/usr/share/zoneinfo");
	return 0;
}

static int teardown(void **state)
{
	zone_set_free(zones);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_odd_nights),   cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_previous),     cmocka_unit_test(test_jitter),
		cmocka_unit_test(test_against_libc), cmocka_unit_test(test_segments),
		cmocka_unit_test(test_posix_rules),  cmocka_unit_test(test_all_year),
		cmocka_unit_test(test_broken_files), cmocka_unit_test(test_refresh),
	};

	if (access("/usr/share/zoneinfo/Europe/Berlin", R_OK) < 0) {
		print_message("skipped: this machine has no tzdata\n");
		return 0;
	}
	return cmocka_run_group_tests(tests, setup, teardown);
}
