/* storage/origin/reference.c — encodes, decodes and checks references.
 *
 * One version of an object has exactly one record, so the encoding must be canonical. Therefore
 * options are parsed, written again by reference_options_text(), and compared with the text.
 *
 * Functions are pure, except reference_put() and reference_load(). reference_check() checks every
 * record that is read.
 */
#include "storage/origin/reference.h"

#include "base/mem.h"
#include "storage/internal.h"

#define MAGIC     "cairn-reference/1\n"
#define MAGIC_LEN (sizeof(MAGIC) - 1)

/* Options. */

void reference_options_text(const struct reference_options *o, struct str *out)
{
	str_add(out, o->anonymous ? "anonymous=true\n" : "");
	if (o->endpoint)
		str_addf(out, "endpoint=%s\n", o->endpoint);
	if (o->profile)
		str_addf(out, "profile=%s\n", o->profile);
	if (o->region)
		str_addf(out, "region=%s\n", o->region);
}

bool reference_options_parse(const char *text, struct arena *arena, struct reference_options *ret)
{
	_cleanup_(str_deinit) struct str again = { 0 };
	struct reference_options o = { 0 };

	for (const char *line = text; *line;) {
		size_t n = strcspn(line, "\n"), name = strcspn(line, "=\n");
		const char *value;

		if (line[n] != '\n' || line[name] != '=')
			return false;
		value = arena_strndup(arena, line + name + 1, n - name - 1);
		if (str_has_prefix(line, "anonymous="))
			o.anonymous = str_eq(value, "true");
		else if (str_has_prefix(line, "endpoint="))
			o.endpoint = value;
		else if (str_has_prefix(line, "profile="))
			o.profile = value;
		else if (str_has_prefix(line, "region="))
			o.region = value;
		line += n + 1;
	}
	reference_options_text(&o, &again);
	if (!str_eq(again.s ? again.s : "", text))
		return false;
	*ret = o;
	return true;
}

/* Checks. */

static bool plain(const char *s, size_t max)
{
	size_t n = 0;

	for (; s[n]; n++)
		if (n == max || (unsigned char)s[n] < 0x20 || s[n] == 0x7f)
			return false;
	return true;
}

static bool options_fine(const char *text)
{
	_cleanup_(arena_freep) struct arena *arena = *text ? arena_new() : NULL;
	struct reference_options o;

	if (strlen(text) > REFERENCE_OPTIONS_MAX)
		return false;
	for (const char *c = text; *c; c++)
		if (((unsigned char)*c < 0x20 && *c != '\n') || *c == 0x7f)
			return false;
	return !arena || reference_options_parse(text, arena, &o);
}

bool reference_is_volume(const char *uri)
{
	return str_has_prefix(uri, "claim://") || str_has_prefix(uri, "image://");
}

int reference_check(const struct reference *r, struct err *err)
{
	static const char *const schemes[] = { "s3://",         "gs://",    "https://", "http://",
					       "mem-bucket://", "claim://", "image://" };
	bool known = false;

	for (size_t i = 0; i < ARRAY_LEN(schemes); i++)
		known |= str_has_prefix(r->uri, schemes[i]);
	if (!plain(r->uri, REFERENCE_URI_MAX) || !known)
		return err_set(err, ERR_INVALID,
			       "the address of an object outside is too long, has control "
			       "characters, or is of no known kind");
	if (str_has_suffix(r->uri, "/"))
		return err_set(err, ERR_INVALID, "%.300s names no file: it ends in a slash",
			       r->uri);
	if (!*r->version || !plain(r->version, REFERENCE_VERSION_MAX))
		return err_set(err, ERR_INVALID, "%.300s: its version can't be recorded", r->uri);
	if (!options_fine(r->options))
		return err_set(err, ERR_INVALID, "%.300s: its options can't be recorded", r->uri);
	return 0;
}

/* Record. */

static void add_text(struct str *out, const char *s)
{
	size_t n = strlen(s);

	str_add_u32(out, (uint32_t)n);
	str_addn(out, s, n + 1);
}

void reference_encode(const struct reference *r, struct str *out)
{
	str_addn(out, MAGIC, MAGIC_LEN);
	str_add_u64(out, r->size_bytes);
	add_text(out, r->uri);
	add_text(out, r->version);
	add_text(out, r->options);
}

/* Reads a text0 at *at; NULL when it is invalid. */
static const char *take_text(const uint8_t **at, const uint8_t *end, struct arena *arena)
{
	const uint8_t *p = *at;
	uint32_t n;

	if (end - p < 4)
		return NULL;
	n = get_le32(p);
	p += 4;
	if ((size_t)(end - p) < (size_t)n + 1 || p[n] != '\0' || memchr(p, '\0', n))
		return NULL;
	*at = p + n + 1;
	return arena_strndup(arena, (const char *)p, n);
}

int reference_decode(const void *bytes, size_t n, struct arena *arena, struct reference *ret,
		     struct err *err)
{
	const uint8_t *p = bytes, *end = p + n;
	struct reference r = { 0 };

	if (n < MAGIC_LEN + 8 || memcmp(p, MAGIC, MAGIC_LEN) != 0)
		return err_set(err, ERR_CORRUPT, "a reference is damaged");
	p += MAGIC_LEN;
	r.size_bytes = get_le64(p);
	p += 8;
	r.uri = take_text(&p, end, arena);
	r.version = r.uri ? take_text(&p, end, arena) : NULL;
	r.options = r.version ? take_text(&p, end, arena) : NULL;
	if (!r.options || p != end || reference_check(&r, NULL) < 0)
		return err_set(err, ERR_CORRUPT, "a reference is damaged");
	*ret = r;
	return 0;
}

int reference_put(struct store *s, const struct reference *r, struct content_id *ret,
		  struct err *err)
{
	_cleanup_(str_deinit) struct str bytes = { 0 };

	reference_encode(r, &bytes);
	content_id_of_bytes(bytes.s, bytes.len, ret);
	ret->kind = CONTENT_REFERENCE;
	return s && store_put(s, STORE_BLOB, &ret->digest, bytes.s, bytes.len, err) < 0 ? -1 : 0;
}

int reference_load(struct store *s, const struct content_id *id, struct arena *arena,
		   struct reference *ret, struct err *err)
{
	_cleanup_(str_deinit) struct str bytes = { 0 };

	if (content_read(s, id, REFERENCE_RECORD_MAX, &bytes, err) < 0)
		return -1;
	return reference_decode(bytes.s ? bytes.s : "", bytes.len, arena, ret, err);
}
