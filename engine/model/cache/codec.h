/* engine/model/cache/codec.h — the visitor that encodes and decodes models: its state, numbers,
 * strings, arrays, expressions. For codec*.c only; the design is in codec.c. Every c_* function
 * writes its value when it encodes and replaces it when it decodes; after a failure it has no
 * effect that matters. */
#ifndef CAIRN_MODEL_CACHE_CODEC_H
#define CAIRN_MODEL_CACHE_CODEC_H

#include "model/cache/cache.h"

struct codec;

struct shared_params {
	const struct param_decl *v;
	size_t n;
};

/* What several steps share. */
struct shared_part {
	const void *part;
	void (*visit)(struct codec *c, void *part); /* of its type */
};

struct codec {
	bool decoding, failed;
	struct str *out;
	const char *p, *end;
	struct arena *arena;
	struct pipeline *pl;
	struct step *s;   /* whose parts are being visited; NULL outside of steps */
	const char *file; /* of the template or expression that is being visited */
	uint32_t *needed; /* per step: the step (index + 1) that has it in its deps */
	VEC(const char *) files;
	VEC(struct shared_params) shared;
	VEC(struct shared_part) parts;
	struct map *part_numbers; /* when encoding: its address → number + 1 */
	bool refers_to_step;      /* what is being visited refers to something of its step */
	bool has_own_parts;       /* the last step has parts that no other may share */
	const struct shell_place *places; /* of the last command */
	size_t n_places;
	struct map *seen; /* pointer → number, for both tables */
	char *pool;       /* the rest of the memory for decoding; when encoding, only the bytes are
			     counted */
	size_t pool_bytes;
	const char *last_file;
	uint32_t last_number;
};

#define MUTABLE(p) ((void *)(uintptr_t)(p))

void codec_fail(struct codec *c); /* from here on every value is 0, "" or empty */
void c_u64(struct codec *c, uint64_t *v);
void c_i64(struct codec *c, int64_t *v);
uint64_t c_max(struct codec *c, uint64_t v, uint64_t max);
void c_f64(struct codec *c, double *v);
void c_str(struct codec *c, const char **s);
void c_name(struct codec *c, const char **s); /* never NULL */
/* Fails unless enough bytes are left for n items. */
bool c_fits(struct codec *c, uint64_t n, size_t item_bytes);
void c_count(struct codec *c, size_t *n, size_t item_bytes);
/* When decoding, zeroed memory for the value; when encoding, `old`. */
void *c_new(struct codec *c, const void *old, size_t bytes);
void *c_alloc(struct codec *c, const void *old, size_t n, size_t size);
/* Numbers a file name or a step file's params by their address. */
uint32_t codec_number_of(struct codec *c, const void *p, bool *ret_new);
void c_pos(struct codec *c, struct pos *pos);
void c_value(struct codec *c, struct value *v);
void c_ref(struct codec *c, struct ref *r);
void c_template(struct codec *c, const struct expr_template **t);
void c_template1(struct codec *c, const struct expr_template **t); /* never NULL */
void c_named_template(struct codec *c, struct named_template *t);
void c_condition(struct codec *c, const struct expr **e);

/* The fewest bytes that one item takes. A bound that is too low does no harm. */
enum {
	ITEM_ANY = 1,
	ITEM_VALUE = 1,
	ITEM_PART = 2,
	ITEM_ARG = 4,
	ITEM_NAMED = 6,
	ITEM_IO = 6,
	ITEM_DEP = 6,
	ITEM_GATE = 14,
	ITEM_TOLERANCE = 12,
	ITEM_PARAM = 20,
	ITEM_STEP = 9
};

#define C_MAX(c, field, max)                                          \
	do {                                                          \
		uint64_t _max = c_max((c), (uint64_t)(field), (max)); \
		if ((c)->decoding)                                    \
			(field) = (__typeof__(field))_max;            \
	} while (0)
#define C_U32(c, field)     C_MAX(c, field, UINT32_MAX)
#define C_BOOL(c, field)    C_MAX(c, field, 1)
#define C_ENUM(c, field, n) C_MAX(c, field, (n)-1)

/* The items of an array whose length is known. */
#define C_ITEMS(c, ptr, n, item_bytes, visit)                           \
	do {                                                            \
		size_t _n = c_fits((c), (n), (item_bytes)) ? (n) : 0;   \
		char *_v = c_alloc((c), (ptr), _n, sizeof(*(ptr)));     \
		if ((c)->decoding)                                      \
			(ptr) = (void *)_v;                             \
		for (size_t _i = 0; _i < _n && !(c)->failed; _i++)      \
			visit((c), (void *)(_v + _i * sizeof(*(ptr)))); \
	} while (0)

#define C_ARRAY(c, ptr, n, item_bytes, visit)          \
	do {                                           \
		c_count(c, &(n), (item_bytes));        \
		C_ITEMS(c, ptr, n, item_bytes, visit); \
	} while (0)

#endif
