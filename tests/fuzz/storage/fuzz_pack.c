/* Indexes of packs and lists of the condemned from bytes. An index that is accepted names only
 * places that a pack can have, in order, each once; and an object of a pack is decoded from
 * whatever bytes lie there. */
#include <stdio.h>
#include "base/mem.h"
#include "storage/remote/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "fuzz_pack: %s\n", what);
	abort();
}

static void try_index(const uint8_t *data, size_t size)
{
	struct pack_member m, last = { 0 };
	struct digest name;
	uint64_t end;

	digest_bytes(data, size, &name);
	if (pack_index_check(&name, data, size, STORE_TREE, NULL) < 0)
		return;
	end = pack_index_pack_size(data);
	for (size_t i = 0; i < pack_index_len(data); i++, last = m) {
		_cleanup_(str_deinit) struct str out = { 0 };

		pack_index_at(data, i, &m);
		must(m.space <= STORE_TREE, "a member of a space that packs don't have");
		must(m.offset + m.stored <= end, "a member behind the pack's end");
		must(i == 0 || last.space < m.space ||
			     memcmp(last.name.b, m.name.b, DIGEST_BYTES) < 0,
		     "members out of order");
		if (m.size < MIB && pack_decode(m.encoding, data, MIN(size, (size_t)m.stored),
						m.size, &out, NULL) == 0)
			must(out.len == m.size, "it was decoded to another size");
	}
}

static void try_condemned(const uint8_t *data, size_t size)
{
	struct condemned *v;
	size_t n;

	if (condemned_parse(data, size, 1000, &v, &n) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		must(v[i].since_ns > 0 && v[i].since_ns <= 1000,
		     "condemned in the future, or never");
		must(i == 0 || condemned_order(&v[i - 1], &v[i]) <= 0, "out of order");
	}
	free(v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(freep) uint8_t *copy = xmalloc(size + 1); /* so that a byte too far is seen */

	if (size)
		memcpy(copy, data, size);
	try_index(copy, size);
	try_condemned(copy, size);
	return 0;
}
