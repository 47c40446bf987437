/* core/protocol/facts.h — what a reader finds in a bucket that knows only the format
 * (storage/FORMAT.md).
 *
 * It asks no client and believes nothing: every member of every pack is decoded and compared with
 * its name. The bucket is one in memory (bucket/memory.h), under the prefix `p`; its objects are
 * lent until it changes.
 */
#ifndef CAIRN_TESTS_CORE_PROTOCOL_FACTS_H
#define CAIRN_TESTS_CORE_PROTOCOL_FACTS_H

#include <stdio.h>
#include "base/mem.h"
#include "storage/bucket/memory.h"
#include "storage/remote/internal.h"

struct facts {
	struct digest_set *contents; /* readable blobs and trees */
	struct digest_set *records,
		*condemned; /* records that are there; and that are listed to go */
	VEC(struct seen_object {
		const char *key;
		const uint8_t *bytes;
		uint64_t size;
	})
	objects;
	uint64_t packs, indexes, others;
	const char *other; /* one of those */
	char wrong[200];   /* what doesn't agree; or "" */
};

static inline void facts_see(void *arg, const char *key, const uint8_t *bytes, uint64_t size)
{
	struct facts *f = arg;
	struct seen_object o = { key + 2, bytes, size }; /* after the prefix */

	VEC_PUSH(&f->objects, o);
}

static inline const struct seen_object *facts_object(const struct facts *f, const char *key)
{
	for (size_t i = 0; i < f->objects.n; i++)
		if (str_eq(f->objects.v[i].key, key))
			return &f->objects.v[i];
	return NULL;
}

static inline void facts_read_pack(struct facts *f, const struct seen_object *index,
				   const struct digest *name)
{
	char key[REMOTE_KEY_MAX];
	const struct seen_object *pack = facts_object(f, remote_pack_key(key, name, false));

	if (pack_index_check(name, index->bytes, index->size, STORE_TREE, NULL) < 0) {
		snprintf(f->wrong, sizeof(f->wrong), "nobody can read the index of a pack, %s",
			 index->key);
		return;
	}
	if (!pack || pack->size != pack_index_pack_size(index->bytes)) {
		snprintf(f->wrong, sizeof(f->wrong), "an index names a pack that isn't there, %s",
			 index->key);
		return;
	}
	for (size_t i = 0; i < pack_index_len(index->bytes); i++) {
		_cleanup_(str_deinit) struct str bytes = { 0 };
		struct pack_member m;
		struct digest d;

		pack_index_at(index->bytes, i, &m);
		if (pack_decode(m.encoding, pack->bytes + m.offset, m.stored, m.size, &bytes,
				NULL) < 0)
			continue;
		digest_bytes(bytes.s ? bytes.s : "", bytes.len, &d);
		if (digest_eq(&d, &m.name))
			digest_set_add(f->contents, &d);
	}
}

static inline void facts_see_condemned(struct facts *f, const struct seen_object *o)
{
	struct condemned list = { .form = CONDEMNED_BUCKET };

	str_addn(&list.bytes, o->bytes, o->size);
	if (!condemned_list_check(&list))
		snprintf(f->wrong, sizeof(f->wrong), "nobody can read the list of the condemned");
	for (size_t i = 0; i < condemned_list_len(&list); i++) {
		const struct condemned_entry e = condemned_list_at(&list, i);
		struct digest name;

		memcpy(name.b, e.key + 1, DIGEST_BYTES);
		if (e.key[0] == KIND_RUN || e.key[0] == KIND_ACTION)
			digest_set_add(f->condemned, &name);
	}
	condemned_list_deinit(&list);
}

static inline void facts_init(struct facts *f, const char *bucket)
{
	*f = (struct facts){ .contents = digest_set_new(),
			     .records = digest_set_new(),
			     .condemned = digest_set_new() };
	bucket_memory_each(bucket, facts_see, f);
	for (size_t i = 0; i < f->objects.n; i++) {
		const struct seen_object *o = &f->objects.v[i];
		struct digest name, d;

		if (str_has_prefix(o->key, "packs/")) {
			f->packs++;
			if (str_has_suffix(o->key, ".idx") && ++f->indexes &&
			    remote_name_in(o->key, strlen("packs/"), &name))
				facts_read_pack(f, o, &name);
		} else if (str_has_prefix(o->key, "runs/") &&
			   remote_name_in(o->key, strlen("runs/ab/"), &name)) {
			digest_bytes(o->bytes, o->size, &d);
			if (digest_eq(&d, &name))
				digest_set_add(f->records, &name);
		} else if (str_has_prefix(o->key, "tags/") &&
			   remote_name_in(o->key, strlen("tags/ab/"), &name)) {
			digest_set_add(f->records, &name);
		} else if (str_eq(o->key, CONDEMNED_KEY)) {
			facts_see_condemned(f, o);
		} else if (str_has_prefix(o->key, "leases/") || str_has_prefix(o->key, "gc/lock")) {
			f->others++;
			f->other = o->key;
		}
	}
}

static inline void facts_deinit(struct facts *f)
{
	digest_set_free(f->contents);
	digest_set_free(f->records);
	digest_set_free(f->condemned);
	VEC_FREE(&f->objects);
}

#endif
