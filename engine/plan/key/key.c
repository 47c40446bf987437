/* engine/plan/key/key.c — key records: the facts whose digest is a task's key, as bytes.
 *
 * A record is a magic word and then facts: kind, name, value, each with its length (key.h lists the
 * kinds). Callers add facts in any order; key_record_end() sorts them with key_fact_order(), so
 * that the order of a YAML list is in no key. Most records are sorted already: one pass detects
 * that and takes no memory.
 *
 * Reading is for `why` and for tests. A record may come from a stranger's store, so every length is
 * checked, and MAX_FACTS bounds what it makes us allocate. Facts that are read point into the
 * record's bytes. No state, any thread. command.c and builtin.c decide which facts a step has.
 */
#include "plan/key/key.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"

#define MAGIC "cairn-key/1"
/* More facts than any step can declare; bounds what a hostile record can make us allocate. */
#define MAX_FACTS 100000

void key_record_init(struct str *record)
{
	str_reset(record);
	str_add_field(record, MAGIC, sizeof(MAGIC) - 1);
}

void key_record_add(struct str *record, enum key_fact_kind kind, const char *name,
		    const void *value, size_t n)
{
	assert(kind >= KEY_PROJECT_SALT && kind <= KEY_ENVIRONMENT);
	str_addc(record, (char)kind);
	str_add_field(record, name, strlen(name));
	str_add_field(record, value, n);
}

void key_record_add_content(struct str *record, enum key_fact_kind kind, const char *name,
			    const char *path, const struct content_id *id)
{
	size_t path_len = strlen(path);

	str_addc(record, (char)kind);
	str_add_field(record, name, strlen(name));
	str_add_u32(record, (uint32_t)(path_len + 1 + 1 + 8 + DIGEST_BYTES));
	str_addn(record, path, path_len + 1);
	str_addc(record, (char)id->kind);
	str_add_u64(record, id->size_bytes);
	str_addn(record, id->digest.b, DIGEST_BYTES);
}

struct reader {
	const uint8_t *at, *end;
};

static uint32_t get_u32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static bool read_field(struct reader *r, const char **ret, size_t *ret_len)
{
	uint32_t n;

	if (r->end - r->at < 4)
		return false;
	n = get_u32(r->at);
	if ((size_t)(r->end - r->at - 4) < n)
		return false;
	*ret = (const char *)r->at + 4;
	*ret_len = n;
	r->at += 4 + n;
	return true;
}

/* 1 with the next fact, 0 at the end, -1: damaged. */
static int next_fact(struct reader *r, struct key_fact *ret)
{
	if (r->at == r->end)
		return 0;
	ret->kind = *r->at++;
	return read_field(r, &ret->name, &ret->name_len) &&
			       read_field(r, &ret->value, &ret->value_len)
		       ? 1
		       : -1;
}

int key_fact_order(const struct key_fact *a, const struct key_fact *b)
{
	int r = a->kind - b->kind;

	if (r == 0)
		r = memcmp(a->name, b->name, MIN(a->name_len, b->name_len));
	return r ? r : (a->name_len > b->name_len) - (a->name_len < b->name_len);
}

static int by_order(const void *x, const void *y)
{
	const struct key_fact *a = x, *b = y;
	int r = key_fact_order(a, b);

	return r ? r : (a->name > b->name) - (a->name < b->name);
}

static bool read_magic(struct reader *r)
{
	const char *magic;
	size_t n;

	return read_field(r, &magic, &n) && n == sizeof(MAGIC) - 1 && memcmp(magic, MAGIC, n) == 0;
}

int key_record_decode(const void *bytes, size_t n, struct key_fact **ret, size_t *ret_n,
		      struct err *err)
{
	struct reader r = { bytes, (const uint8_t *)bytes + n };
	VEC(struct key_fact) facts = { 0 };
	struct key_fact f;
	int more;

	if (!read_magic(&r))
		return err_set(err, ERR_CORRUPT, "not a key record");
	while ((more = next_fact(&r, &f)) > 0 && facts.n < MAX_FACTS)
		VEC_PUSH(&facts, f);
	if (more) {
		VEC_FREE(&facts);
		return err_set(err, ERR_CORRUPT, "damaged key record");
	}
	if (facts.n)
		qsort(facts.v, facts.n, sizeof(*facts.v), by_order);
	*ret = facts.v;
	*ret_n = facts.n;
	return 0;
}

/* Most records have their order already: seen in one pass that takes no memory. */
static bool is_sorted(const struct str *record)
{
	struct reader r = { (const uint8_t *)record->s, (const uint8_t *)record->s + record->len };
	struct key_fact last = { .name = "" }, f;
	bool good = read_magic(&r);

	assert(good);
	for (; next_fact(&r, &f) > 0; last = f)
		if (key_fact_order(&last, &f) > 0)
			return false;
	assert(r.at == r.end);
	return true;
}

void key_record_end(struct str *record)
{
	struct str sorted = { 0 };
	struct key_fact *v;
	size_t n;
	int r;

	if (is_sorted(record))
		return;
	r = key_record_decode(record->s, record->len, &v, &n, NULL);
	assert(r == 0);
	key_record_init(&sorted);
	for (size_t i = 0; i < n; i++) {
		str_addc(&sorted, (char)v[i].kind);
		str_add_field(&sorted, v[i].name, v[i].name_len);
		str_add_field(&sorted, v[i].value, v[i].value_len);
	}
	free(v);
	str_deinit(record);
	*record = sorted;
}

bool key_fact_content(const struct key_fact *f, const char **ret_path, struct content_id *ret)
{
	const uint8_t *end = (const uint8_t *)f->value + f->value_len, *p;
	size_t path_len = strnlen(f->value, f->value_len);

	if (f->value_len != path_len + 1 + 1 + 8 + DIGEST_BYTES)
		return false;
	p = end - (1 + 8 + DIGEST_BYTES);
	*ret_path = f->value;
	ret->kind = p[0];
	ret->size_bytes = get_u32(p + 1) | (uint64_t)get_u32(p + 5) << 32;
	memcpy(ret->digest.b, p + 9, DIGEST_BYTES);
	return ret->kind >= CONTENT_BLOB && ret->kind <= CONTENT_KIND_MAX;
}

const char *key_fact_kind_name(uint8_t kind)
{
	static const char *const names[] = {
		[KEY_PROJECT_SALT] = "project salt",
		[KEY_STEP_SALT] = "salt",
		[KEY_SHELL] = "shell",
		[KEY_SCRIPT] = "command",
		[KEY_ENV] = "env",
		[KEY_SECRET] = "secret",
		[KEY_PARAM] = "param",
		[KEY_SEED] = "seed",
		[KEY_TOOL] = "tool",
		[KEY_OUTPUT] = "output",
		[KEY_METRICS] = "metrics file",
		[KEY_INPUT] = "input",
		[KEY_CODE] = "code",
		[KEY_RESOURCES] = "resources",
		[KEY_BUILTIN] = "built-in step",
		[KEY_WITH] = "setting",
		[KEY_DISTRIBUTED] = "number of ranks",
		[KEY_IMAGE] = "image",
		[KEY_PACKAGES] = "active Python environment",
		[KEY_SANDBOX] = "sandbox",
		[KEY_VALUES] = "values file",
		[KEY_APPROVE] = "question",
		[KEY_ENVIRONMENT] = "environment",
	};

	return kind < ARRAY_LEN(names) && names[kind] ? names[kind] : "unknown fact";
}
