/* engine/serve/schedule/timezone.c — the set of zones, their files, and segments of constant
 * offset.
 *
 * A zone is a table of transitions and, after the last one, a POSIX rule, whose transitions are
 * computed for the years around the requested time. zone_segment_at() bisects the table, or uses
 * the rule. zone_refresh() reads a file again when its stat() differs, and replaces the zone's
 * content in place.
 *
 * Invariants: a struct zone keeps its address as long as its set lives, since calendars keep
 * pointers to it. When a file can't be read any more, its zone stays as it was. A name can't lead
 * out of the directory (good_name()).
 *
 * Threads: the thread of the set. Not here: parsing (zonefile.c), calendars (calendar.c).
 */
#include "serve/schedule/timezone.h"

#include <limits.h>
#include <string.h>
#include "base/map.h"
#include "base/mem.h"
#include "base/os/fs.h"
#include "serve/schedule/zonefile.h"

#define ZONE_FILE_MAX (1 * MIB) /* the largest file of tzdata has 4 KiB */

struct zone_set {
	char *dir;
	struct map *zones; /* name → struct zone * */
};

/* Segments. */

static struct zone_segment segment_of_rule(const struct zone *z, int64_t t)
{
	struct zone_segment s = { z->n ? z->times[z->n - 1] : INT64_MIN, INT64_MAX,
				  z->n ? z->offsets[z->n - 1] : z->first_offset };
	struct zone_change changes[ZONE_RULE_CHANGES];
	size_t n = zone_rule_changes(&z->rule, t, changes);

	if (z->has_rule)
		s.offset_s = z->rule.std_offset; /* overwritten below where summer time has rules */
	for (size_t i = 0; i < n; i++) {
		if (changes[i].at_s <= t) {
			s.start_s = MAX(s.start_s, changes[i].at_s);
			s.offset_s = changes[i].offset_s;
		} else {
			s.end_s = changes[i].at_s;
			break;
		}
	}
	return s;
}

struct zone_segment zone_segment_at(const struct zone *z, int64_t t)
{
	size_t low = 0, high = z->n; /* transitions before `low` are at or before t */

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (z->times[middle] <= t)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == z->n && z->has_rule)
		return segment_of_rule(z, t);
	return (struct zone_segment){ low ? z->times[low - 1] : INT64_MIN,
				      low < z->n ? z->times[low] : INT64_MAX,
				      low ? z->offsets[low - 1] : z->first_offset };
}

/* Clocks go back by a day at most, so earlier segments don't matter. */
#define BACK_MAX_S (3 * 86400)

int64_t zone_shown_before(const struct zone *z, const struct zone_segment *s)
{
	struct zone_segment before = *s;
	int64_t shown = INT64_MIN;

	for (int i = 0;
	     i < 16 && before.start_s > INT64_MIN && before.start_s > s->start_s - BACK_MAX_S;
	     i++) {
		before = zone_segment_at(z, before.start_s - 1);
		shown = MAX(shown, before.end_s + before.offset_s);
	}
	return shown;
}

/* Files. */

static bool good_name(const char *name)
{
	return *name && *name != '/' && strlen(name) <= 200 && !strstr(name, "..") &&
	       strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-/") ==
		       strlen(name);
}

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static int load(const char *dir, const char *name, struct zone **ret, struct err *err)
{
	_cleanup_(freep) char *path = xasprintf("%s/%s", dir, name);
	_cleanup_(str_deinit) struct str bytes = { 0 };
	struct stat st = { 0 };
	int r;

	if (stat(path, &st) < 0 && str_eq(name, "UTC"))
		return zone_utc(ret);
	r = fs_read_file(path, ZONE_FILE_MAX, &bytes, err);
	if (r == 0)
		r = zone_parse(bytes.s ? bytes.s : "", bytes.len, ret, err);
	if (r < 0)
		return err_wrap(err, "time zone %s", name);
	(*ret)->file = st;
	return 0;
}

int zone_get(struct zone_set *set, const char *name, struct zone **ret, struct err *err)
{
	struct zone *z = map_get_str(set->zones, name);

	if (!z) {
		if (!good_name(name))
			return err_set(
				err, ERR_INVALID,
				"`%.60s` is not the name of a time zone, such as Europe/Berlin",
				name);
		if (load(set->dir, name, &z, err) < 0)
			return -1;
		*map_slot_str(set->zones, name) = z;
	}
	*ret = z;
	return 0;
}

size_t zone_refresh(struct zone_set *set)
{
	size_t changed = 0;

	for (size_t i = 0; i < map_len(set->zones); i++) {
		const void *name;
		size_t len;
		struct zone *z = map_at(set->zones, i, &name, &len);
		_cleanup_(freep) char *text = xstrndup(name, len);
		_cleanup_(freep) char *path = xasprintf("%s/%s", set->dir, text);
		struct zone *now;
		struct stat st;

		if (stat(path, &st) < 0 || same_file(&st, &z->file) ||
		    load(set->dir, text, &now, NULL) < 0)
			continue;
		zone_deinit(z);
		*z = *now;
		free(now);
		changed++;
	}
	return changed;
}

struct zone_set *zone_set_new(const char *dir)
{
	struct zone_set *set = xcalloc(1, sizeof(*set));
	const char *from_env = getenv("TZDIR");

	set->dir = xstrdup(dir ? dir : from_env && *from_env ? from_env : "/usr/share/zoneinfo");
	set->zones = map_new();
	return set;
}

void zone_set_free(struct zone_set *set)
{
	if (!set)
		return;
	for (size_t i = 0; i < map_len(set->zones); i++)
		zone_free(map_at(set->zones, i, NULL, NULL));
	map_free(set->zones);
	free(set->dir);
	free(set);
}
