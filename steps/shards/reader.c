/* steps/shards/reader.c — samples from the members of a tar, and the check of names that reader and
 * writer share.
 *
 * A sample ends where a member with another key begins. That member has been read already, so it
 * waits in `ahead` as the beginning of the next sample. A sample is in memory as a whole:
 * SHARD_SAMPLE_MAX and SHARD_FIELDS_MAX bound it, and `ahead_bytes` carries its size over to the
 * next call.
 *
 * Any error ends the reader: after damage, no member can be trusted to begin a sample.
 *
 * Only shard_name_split() decides which names are safe and where a key ends. members.c has the
 * limits of unpacking and the archive's formats.
 */
#include "steps/shards/shards.h"

#include <ctype.h>
#include <string.h>
#include "base/mem.h"
#include "base/text/text.h"
#include "steps/shards/members.h"

/* Names. */

static int bad_name(const char *name, const char *what, struct err *err)
{
	return err_set(err, ERR_INVALID, "`%.200s` %s", name, what);
}

static int check_safe(const char *name, struct err *err)
{
	size_t n = strlen(name);

	if (n > SHARD_NAME_MAX)
		return bad_name(name, "is longer than a sample's name may be", err);
	if (!text_is_utf8(name, n))
		return bad_name(name, "is not UTF-8", err);
	if (name[0] == '/')
		return bad_name(name, "is an unsafe path: absolute", err);
	for (const char *p = name; *p; p++)
		if ((unsigned char)*p < 32 || *p == 127 || *p == '\\')
			return bad_name(
				name,
				"is an unsafe path: it has a control character or a backslash",
				err);
	for (const char *p = name, *end; p; p = *end ? end + 1 : NULL) {
		end = strchrnul(p, '/');
		if (end == p || (end - p == 1 && p[0] == '.') ||
		    (end - p == 2 && p[0] == '.' && p[1] == '.'))
			return bad_name(
				name, "is an unsafe path: it has an empty part, `.` or `..`", err);
	}
	return 0;
}

int shard_name_split(const char *name, size_t *ret_key_len, struct err *err)
{
	const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name,
		   *dot = strchr(base, '.');

	if (check_safe(name, err) < 0)
		return -1;
	if (!dot || !dot[1])
		return -bad_name(name, "has no suffix, which would say what the file is", err);
	if (dot == base)
		return -bad_name(name, "has no key before its suffix", err);
	*ret_key_len = (size_t)(dot - name);
	return 0;
}

int shard_check_name(const char *key, const char *field, struct err *err)
{
	_cleanup_(freep) char *name = xasprintf("%s.%s", key, field);
	size_t key_len;

	if (shard_name_split(name, &key_len, err) != 0)
		return -1;
	if (key_len != strlen(key))
		return err_set(err, ERR_INVALID,
			       "the key `%.200s` has a dot after its last slash, where a reader "
			       "would cut it",
			       key);
	return 0;
}

/* Samples. */

void shard_sample_free(struct shard_sample *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n_fields; i++) {
		free((void *)s->fields[i].name);
		free((void *)s->fields[i].data);
	}
	free(s->fields);
	free(s->key);
	free(s);
}

const struct shard_field *shard_sample_field(const struct shard_sample *s, const char *name)
{
	for (size_t i = 0; i < s->n_fields; i++)
		if (strcmp(s->fields[i].name, name) == 0)
			return &s->fields[i];
	return NULL;
}

struct shard_reader {
	char *path;
	struct member_reader *members;
	struct shard_sample *ahead; /* begun by a member of another key */
	uint64_t ahead_bytes;
	bool ended;
};

static const struct member_limits limits = {
	.member_max = SHARD_MEMBER_MAX,
	.total_max = UINT64_MAX,
	.ratio_max = SHARD_RATIO_MAX,
	.ratio_from = SHARD_RATIO_FROM,
};

int shard_reader_open(const char *path, struct shard_reader **ret, struct err *err)
{
	struct member_reader *m;

	if (member_reader_open(path, &limits, &m, err) < 0)
		return -1;
	*ret = xcalloc(1, sizeof(**ret));
	(*ret)->path = xstrdup(path);
	(*ret)->members = m;
	return 0;
}

void shard_reader_free(struct shard_reader *r)
{
	if (!r)
		return;
	member_reader_free(r->members);
	shard_sample_free(r->ahead);
	free(r->path);
	free(r);
}

/* Takes the name, which becomes lower case, and the data. */
static int add_field(struct shard_reader *r, struct shard_sample *s, char *name, struct str *data,
		     uint64_t *sample_bytes, struct err *err)
{
	const char *what;

	for (char *p = name; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	what = shard_sample_field(s, name)       ? "has the field twice"
	       : s->n_fields == SHARD_FIELDS_MAX ? "has too many fields"
						 : NULL;

	*sample_bytes += data->len;
	if (!what && *sample_bytes > SHARD_SAMPLE_MAX)
		what = "is larger than a sample may be";
	if (what) {
		err_set(err, ERR_INVALID, "%s: sample `%.200s` %s: `%.100s`", r->path, s->key, what,
			name);
		free(name);
		str_deinit(data);
		return -1;
	}
	s->fields = xreallocarray(s->fields, s->n_fields + 1, sizeof(*s->fields));
	s->fields[s->n_fields] = (struct shard_field){ .name = name, .n = data->len };
	s->fields[s->n_fields++].data = str_take(data);
	return 0;
}

/* Adds one member to `*s` or, when its key is another, to a new sample: *ret_new. 1: a member, 0:
 * the end, -1. */
static int read_member(struct shard_reader *r, struct shard_sample *s,
		       struct shard_sample **ret_new, uint64_t *bytes, struct err *err)
{
	struct str data = { 0 };
	const char *name;
	uint64_t offset;
	size_t key_len;
	int n = member_reader_next(r->members, &name, &offset, err);

	if (n <= 0)
		return n;
	if (shard_name_split(name, &key_len, err) != 0)
		return err_wrap(err, "%s", r->path);
	if (!s || strlen(s->key) != key_len || memcmp(s->key, name, key_len) != 0) {
		s = *ret_new = xcalloc(1, sizeof(*s));
		s->key = xstrndup(name, key_len);
		s->offset = offset;
		*bytes = 0;
	}
	if (member_reader_data(r->members, &data, err) < 0) {
		str_deinit(&data);
		return -1;
	}
	return add_field(r, s, xstrdup(name + key_len + 1), &data, bytes, err) < 0 ? -1 : 1;
}

int shard_reader_next(struct shard_reader *r, struct shard_sample **ret, struct err *err)
{
	struct shard_sample *s = TAKE_PTR(r->ahead);
	uint64_t bytes = r->ahead_bytes;

	while (!r->ended) {
		struct shard_sample *begun = NULL;
		int n = read_member(r, s, &begun, &bytes, err);

		if (n < 0) {
			shard_sample_free(begun);
			shard_sample_free(s);
			r->ended = true;
			return -1;
		}
		r->ended = n == 0;
		if (!begun)
			continue;
		if (s) {
			r->ahead = begun;
			r->ahead_bytes = bytes;
			break;
		}
		s = begun;
	}
	if (!s)
		return 0;
	*ret = s;
	return 1;
}
