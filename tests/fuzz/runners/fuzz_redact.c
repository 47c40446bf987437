/* The log's filter: whatever the secrets and however the stream is cut, what comes out is what
 * the model makes of the whole text.
 *
 * An input is 1 to 8 secrets and a program that writes the stream: bytes as they stand,
 * beginnings, ends and inner parts of secrets, and of the forms in which secrets are looked for,
 * so that they overlap and nest. */
#include <stdio.h>
#include <string.h>
#include "../../unit/runners/redact_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SECRETS_MAX 8
#define TEXT_MAX    (16 * KIB)

struct input {
	const uint8_t *at, *end;
	const char *values[SECRETS_MAX];
	size_t n;
	VEC(struct str) forms; /* of all of them */
	uint32_t seed;         /* of how the stream is cut */
};

static uint8_t take(struct input *in)
{
	uint8_t c = in->at < in->end ? *in->at++ : 0;

	in->seed = (in->seed ^ c) * 16777619u;
	return c;
}

/* A value is what an environment variable can hold. */
static void take_secrets(struct input *in)
{
	in->n = take(in) % SECRETS_MAX + 1;
	for (size_t i = 0; i < in->n; i++) {
		size_t len = take(in) % (i ? 24 : 200); /* one may be cut */
		char *v = xcalloc(1, len + 1);

		for (size_t b = 0; b < len; b++) {
			uint8_t c = take(in);

			v[b] = c ? (char)c : 'a';
		}
		in->values[i] = v;
	}
}

static void keep_form(void *arg, const char *s, size_t n)
{
	struct input *in = arg;
	struct str *f = VEC_ADD(&in->forms);

	if (n < REDACT_MIN || n > REDACT_PIECE) {
		fprintf(stderr, "fuzz_redact: a piece of %zu bytes\n", n);
		abort();
	}
	str_addn(f, s, n);
}

static void write_text(struct input *in, struct str *text)
{
	while (in->at < in->end && text->len < TEXT_MAX) {
		uint8_t op = take(in);

		if (op < 128 || !in->forms.n) {
			str_addc(text, (char)op);
		} else if (op < 160) {
			str_addc(text, (char)take(in));
		} else { /* a part of a secret, or of a form */
			const char *v = in->values[op % in->n];
			const struct str *f = &in->forms.v[(take(in) * 256u + op) % in->forms.n];
			size_t n = op < 192 ? strlen(v) : f->len, from = 0;

			if (op % 3 == 1)
				from = take(in) % (n + 1);
			else if (op % 3 == 2)
				n = take(in) % (n + 1);
			str_addn(text, (op < 192 ? v : f->s) + from, n - from);
		}
	}
}

/* In writes of at most `most` bytes; 0: all at once. */
static void filter(struct redactor *r, const struct str *text, size_t most, uint32_t seed,
		   struct str *ret)
{
	str_reset(ret);
	for (size_t at = 0, n; at < text->len; at += n) {
		seed = seed * 1664525u + 1013904223u;
		n = MIN(most ? (seed >> 8) % most + 1 : text->len, text->len - at);
		redactor_feed(r, text->s + at, n, false, ret);
	}
	redactor_feed(r, "", 0, true, ret);
}

static void check(const struct input *in, const struct str *text)
{
	static const size_t writes[] = { 0, 1, 7, 100 };
	struct redactor *r = redactor_new(in->values, in->n);
	struct str got = { 0 }, want = { 0 };

	redact_model(in->values, in->n, text->s, text->len, &want);
	for (size_t i = 0; i < ARRAY_LEN(writes); i++) {
		filter(r, text, writes[i], in->seed, &got);
		if (got.len != want.len || memcmp(got.s, want.s, want.len) != 0) {
			fprintf(stderr, "fuzz_redact: in writes of %zu: %zu bytes, not %zu\n",
				writes[i], got.len, want.len);
			abort();
		}
	}
	redactor_free(r);
	str_deinit(&got);
	str_deinit(&want);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { .at = data, .end = data + size };
	struct str text = { 0 };

	str_add(&text, "");
	take_secrets(&in);
	for (size_t i = 0; i < in.n; i++)
		redact_forms(in.values[i], strlen(in.values[i]), keep_form, &in);
	write_text(&in, &text);
	check(&in, &text);
	for (size_t i = 0; i < in.n; i++)
		free((char *)in.values[i]);
	for (size_t i = 0; i < in.forms.n; i++)
		str_deinit(&in.forms.v[i]);
	VEC_FREE(&in.forms);
	str_deinit(&text);
	return 0;
}
