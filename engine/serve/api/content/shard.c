/* engine/serve/api/content/shard.c — a tar of samples (WebDataset): its samples, and where their
 * members are in it.
 *
 * The headers are read one after the other, and the members skipped, so a shard of gigabytes costs
 * one small read a member. Members with one key, the name up to the first dot of its last part,
 * stand next to one another and are a sample. Names of GNU (type L) and pax headers (type x) are
 * understood. A sample's label is the text of its member `cls`, `label` or `txt`.
 *
 * Invariants: the tar is hostile: sizes and offsets are checked against the file, and names,
 * headers and members are bounded. What follows a header that isn't one is not shown.
 *
 * Threads: the pool's.
 */
#include <string.h>
#include "base/os/fs.h"
#include "base/text/text.h"
#include "base/ustar.h"
#include "record/facts.h"
#include "serve/api/content/content.h"
#include "serve/api/log.h"

#define MEMBERS_MAX     500000 /* that one request reads */
#define NAME_BYTES_MAX  (64 * KIB)
#define LABEL_BYTES_MAX 200
#define SAMPLES_MAX     500
#define PER_SAMPLE_MAX  100

struct member {
	struct str name; /* raw */
	uint64_t at, size;
	char type;
};

struct walk {
	int fd;
	uint64_t size, at;
	struct str long_name; /* of the next member; "": none */
	uint64_t pax_size;    /* likewise */
	bool has_pax_size;
};

/* Octal digits, or base 256 of GNU. False: it is no number. */
static bool read_number(const char *field, size_t n, uint64_t *ret)
{
	size_t i = 0;

	*ret = 0;
	if ((unsigned char)field[0] == 0x80) {
		for (i = 1; i < n; i++) {
			if (*ret >> 55)
				return false;
			*ret = *ret << 8 | (unsigned char)field[i];
		}
		return true;
	}
	while (i < n && field[i] == ' ')
		i++;
	for (; i < n && field[i] >= '0' && field[i] <= '7'; i++)
		*ret = *ret << 3 | (uint64_t)(field[i] - '0');
	return i == n || field[i] == ' ' || field[i] == '\0';
}

static bool checksum_fits(const struct ustar *h)
{
	const unsigned char *b = (const unsigned char *)h;
	uint64_t sum = 0, want;

	for (size_t i = 0; i < sizeof(*h); i++) {
		bool own = i >= offsetof(struct ustar, checksum) &&
			   i < offsetof(struct ustar, checksum) + sizeof(h->checksum);

		sum += own ? ' ' : b[i];
	}
	return read_number(h->checksum, sizeof(h->checksum), &want) && want == sum;
}

/* "LENGTH key=value\n" records: takes path and size. */
static void read_pax(struct walk *w, const char *text, size_t n)
{
	for (const char *at = text, *end = text + n; at < end;) {
		const char *space = memchr(at, ' ', (size_t)(end - at)), *eq;
		uint64_t len = 0;

		for (const char *d = at;
		     space && d < space && *d >= '0' && *d <= '9' && len <= NAME_BYTES_MAX; d++)
			len = len * 10 + (uint64_t)(*d - '0');
		if (!space || len <= (uint64_t)(space - at) + 1 || len > (uint64_t)(end - at))
			return;
		eq = memchr(space, '=', len - (uint64_t)(space - at));
		if (eq && eq - space == 5 && memcmp(space + 1, "path", 4) == 0) {
			str_reset(&w->long_name);
			str_addn(&w->long_name, eq + 1, (size_t)(at + len - 1 - (eq + 1)));
		} else if (eq && eq - space == 5 && memcmp(space + 1, "size", 4) == 0) {
			_cleanup_(freep) char *v =
				xstrndup(eq + 1, (size_t)(at + len - 1 - (eq + 1)));
			int64_t size;

			w->has_pax_size = text_parse_int(v, &size) && size >= 0;
			w->pax_size = w->has_pax_size ? (uint64_t)size : 0;
		}
		at += len;
	}
}

/* A header that says something of the next member. */
static bool read_extra(struct walk *w, char type, uint64_t size)
{
	_cleanup_(freep) char *text = size <= NAME_BYTES_MAX ? xmalloc(size + 1) : NULL;

	if (!text || fs_read_at(w->fd, text, size, (off_t)w->at) != (ssize_t)size)
		return false;
	text[size] = '\0';
	if (type == 'x') {
		read_pax(w, text, size);
	} else {
		str_reset(&w->long_name);
		str_add(&w->long_name, text);
	}
	return true;
}

static void name_of(struct walk *w, const struct ustar *h, struct str *out)
{
	str_reset(out);
	if (w->long_name.len) {
		str_addn(out, w->long_name.s, w->long_name.len);
		return;
	}
	if (memcmp(h->magic, "ustar", 5) == 0 && h->prefix[0]) {
		str_addn(out, h->prefix, strnlen(h->prefix, sizeof(h->prefix)));
		str_addc(out, '/');
	}
	str_addn(out, h->name, strnlen(h->name, sizeof(h->name)));
}

/* The next member that is a file. */
static bool next_member(struct walk *w, struct member *m)
{
	struct ustar h;

	while (w->at + sizeof(h) <= w->size &&
	       fs_read_at(w->fd, &h, sizeof(h), (off_t)w->at) == (ssize_t)sizeof(h)) {
		uint64_t size;

		if (!h.name[0] || !checksum_fits(&h) || !read_number(h.size, sizeof(h.size), &size))
			return false;
		w->at += sizeof(h);
		if (w->has_pax_size && h.type != 'x' && h.type != 'L')
			size = w->pax_size;
		if (size > w->size - w->at)
			return false;
		if ((h.type == 'x' || h.type == 'L') && !read_extra(w, h.type, size))
			return false;
		m->at = w->at;
		m->size = size;
		w->at += (size + USTAR_BLOCK - 1) / USTAR_BLOCK * USTAR_BLOCK;
		if (h.type == 'x' || h.type == 'L' || h.type == 'g')
			continue;
		name_of(w, &h, &m->name);
		str_reset(&w->long_name);
		w->has_pax_size = false;
		if (h.type == '0' || h.type == '\0')
			return true;
	}
	return false;
}

/* Samples. */

struct samples {
	struct walk w;
	json_t *list, *now; /* the sample that is being read, or NULL */
	struct str key;
	uint64_t from, limit, n; /* n: samples so far */
};

/* The length of the key in a member's name. */
static size_t key_len(const struct str *name)
{
	const char *slash = memrchr(name->s, '/', name->len), *base = slash ? slash + 1 : name->s,
		   *dot = memchr(base, '.', name->len - (size_t)(base - name->s));

	return dot ? (size_t)(dot - name->s) : name->len;
}

static bool is_label(const char *ext)
{
	return str_eq(ext, "cls") || str_eq(ext, "label") || str_eq(ext, "txt");
}

static void add_label(struct samples *s, const struct member *m)
{
	char text[LABEL_BYTES_MAX];
	ssize_t n = m->size <= sizeof(text) ? fs_read_at(s->w.fd, text, m->size, (off_t)m->at) : -1;

	while (n > 0 && strchr("\n\r ", text[n - 1]))
		n--;
	if (n >= 0)
		json_object_set_new(s->now, "label", api_lossy_text(text, (size_t)n));
}

static void add_member(struct samples *s, const struct member *m)
{
	size_t len = key_len(&m->name);
	const char *ext = m->name.s + MIN(len + 1, m->name.len);
	json_t *members;

	if (s->n == 0 || len != s->key.len || memcmp(m->name.s, s->key.s, len) != 0) {
		str_reset(&s->key);
		str_addn(&s->key, m->name.s, len);
		s->now = NULL;
		if (s->n >= s->from && s->n - s->from < s->limit) {
			s->now = json_pack("{s:o, s:o, s:n}", "key", json_name(m->name.s, len),
					   "members", json_array(), "label");
			json_array_append_new(s->list, s->now);
		}
		s->n++;
	}
	members = json_object_get(s->now, "members");
	if (!members || json_array_size(members) >= PER_SAMPLE_MAX)
		return;
	json_array_append_new(members,
			      json_pack("{s:o, s:I, s:I}", "name",
					json_name(ext, m->name.len - (size_t)(ext - m->name.s)),
					"offset", (json_int_t)m->at, "size", (json_int_t)m->size));
	if (is_label(ext) && json_is_null(json_object_get(s->now, "label")))
		add_label(s, m);
}

void api_content_shard(struct api *a)
{
	struct samples s = { .limit = API_LIMIT_DEFAULT };
	struct member m = { 0 };
	struct content_named c;
	size_t members = 0;
	int fd;

	if (!api_uint(a, "offset", 0, API_CURSOR_MAX, &s.from) ||
	    !api_uint(a, "limit", 1, SAMPLES_MAX, &s.limit) ||
	    !api_content_open(a, &c, &fd, &s.w.size))
		return;
	s.w.fd = fd;
	s.list = json_array();
	str_add(&s.key, "");
	while (members < MEMBERS_MAX && next_member(&s.w, &m)) {
		add_member(&s, &m);
		members++;
	}
	if (!members && s.w.size)
		web_problem(a->x, 422, "it can't be shown as a shard: it is no tar with files");
	else
		web_answer_json(a->x, 200,
				json_pack("{s:O, s:o}", "samples", s.list, "total",
					  members < MEMBERS_MAX ? json_integer((json_int_t)s.n)
								: json_null()));
	json_decref(s.list);
	close(fd);
	str_deinit(&m.name);
	str_deinit(&s.key);
	str_deinit(&s.w.long_name);
}
