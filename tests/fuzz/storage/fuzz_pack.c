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
	for (int form = CONDEMNED_DIRECTORY; form <= CONDEMNED_BUCKET; form++) {
		struct condemned list = { .form = (enum condemned_form)form };
		struct condemned_entry e, found, last = { .key = { 255 } };

		str_addn(&list.bytes, data, size);
		if (condemned_list_check(&list))
			for (size_t i = 0; i < condemned_list_len(&list); i++, last = e) {
				e = condemned_list_at(&list, i);
				must(e.dead_ns >= 0 && e.listed_ns >= 0, "a time before all time");
				must(e.key[0] < last.key[0] ||
					     (e.key[0] == last.key[0] &&
					      memcmp(e.key, last.key, sizeof(e.key)) >= 0),
				     "out of order");
				must(condemned_list_find(&list, e.key, &found), "not found");
			}
		condemned_list_deinit(&list);
	}
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
