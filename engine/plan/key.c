#include "plan/key.h"
#include "base/mem.h"

#define MAGIC "cairn-key/1"
/* More facts than any step can declare; bounds what a hostile record can make us allocate. */
#define MAX_FACTS 100000

void key_record_init(struct str *record)
{
	str_reset(record);
	str_add_field(record, MAGIC, sizeof(MAGIC) - 1);
}

void key_record_add(struct str *record, enum key_fact_kind kind, const char *name, const void *value, size_t n)
{
	str_addc(record, (char)kind);
	str_add_field(record, name, strlen(name));
	str_add_field(record, value, n);
}

void key_record_add_content(struct str *record, enum key_fact_kind kind, const char *name, const char *path, const struct content_id *id)
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

static uint64_t get_u64(const uint8_t *p)
{
	return get_u32(p) | (uint64_t)get_u32(p + 4) << 32;
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

int key_record_decode(const void *bytes, size_t n, struct key_fact **ret, size_t *ret_n, struct err *err)
{
	struct reader r = { bytes, (const uint8_t *)bytes + n };
	VEC(struct key_fact) facts = { 0 };
	const char *magic;
	size_t magic_len;

	if (!read_field(&r, &magic, &magic_len) || magic_len != sizeof(MAGIC) - 1 || memcmp(magic, MAGIC, magic_len) != 0)
		return err_set(err, ERR_CORRUPT, "not a key record");
	while (r.at < r.end) {
		struct key_fact f = { .kind = *r.at++ };

		if (facts.n == MAX_FACTS || !read_field(&r, &f.name, &f.name_len) || !read_field(&r, &f.value, &f.value_len)) {
			VEC_FREE(&facts);
			return err_set(err, ERR_CORRUPT, "damaged key record");
		}
		VEC_PUSH(&facts, f);
	}
	*ret = facts.v;
	*ret_n = facts.n;
	return 0;
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
	ret->size_bytes = get_u64(p + 1);
	memcpy(ret->digest.b, p + 9, DIGEST_BYTES);
	return ret->kind >= CONTENT_BLOB && ret->kind <= CONTENT_KIND_MAX;
}

const char *key_fact_kind_name(uint8_t kind)
{
	static const char *const names[] = {
		[KEY_PROJECT_SALT] = "project salt", [KEY_STEP_SALT] = "salt", [KEY_SHELL] = "shell", [KEY_SCRIPT] = "command",
		[KEY_ENV] = "env", [KEY_SECRET] = "secret", [KEY_PARAM] = "param", [KEY_SEED] = "seed", [KEY_TOOL] = "tool",
		[KEY_OUTPUT] = "output", [KEY_METRICS] = "metrics file", [KEY_INPUT] = "input", [KEY_CODE] = "code",
		[KEY_RESOURCES] = "resources", [KEY_BUILTIN] = "built-in step", [KEY_WITH] = "setting", [KEY_DISTRIBUTED] = "number of ranks",
		[KEY_IMAGE] = "image", [KEY_PACKAGES] = "active Python environment",
	};

	return kind < ARRAY_LEN(names) && names[kind] ? names[kind] : "unknown fact";
}
