/* Action records from bytes: what is accepted must be canonical, and can be published, found again
 * and observed twice. */
#include <stdio.h>
#include "storage/action.h"
#include "storage/internal.h"
#include "storage/local/maintain.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "fuzz_action: %s\n", what);
	abort();
}

/* A record of the first format has no digest at its end, so that mutations reach what is behind it.
 */
static void encode_again(const struct action_record *r, const uint8_t *data, size_t size)
{
	bool first = data[13] == '1';
	struct str bytes = { 0 };

	action_encode(r, &bytes);
	if (first)
		bytes.s[13] = '1';
	must(bytes.len == size + (first ? 32 : 0) && memcmp(bytes.s, data, size) == 0,
	     "it isn't canonical");
	str_deinit(&bytes);
}

static void publish(struct action_record *r, struct arena *arena)
{
	struct store *s = store_memory_new();
	struct action_record got, *all;
	struct digest *names;
	size_t n;

	must(action_put(s, r, NULL) == 0, "it can't be published");
	must(action_put(s, r, NULL) == 1, "the same outputs aren't the same");
	must(action_get(s, &r->key, arena, &got, NULL) == 0 && got.n_outputs == r->n_outputs,
	     "it can't be found");
	if (r->n_outputs) {
		r->outputs[0].id.size_bytes ^= 1;
		must(action_put(s, r, NULL) == 2, "other outputs are the same");
	}
	must(action_observations(s, &r->key, arena, &all, &names, &n, NULL) == 0 &&
		     n == 1 + (r->n_outputs > 0),
	     "an observation was lost");
	must(store_verify(s, NULL, NULL, NULL, NULL, NULL) >= 0, "it can't be verified");
	store_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena *arena = arena_new();
	struct action_record r;

	if (action_decode(data, size, arena, &r, NULL) == 0) {
		encode_again(&r, data, size);
		publish(&r, arena);
	}
	arena_free(arena);
	return 0;
}
