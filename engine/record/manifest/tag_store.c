/* engine/record/manifest/tag_store.c — changes of names as objects in the store's STORE_TAG space.
 *
 * A change is canonical JSON: cairn_tag (the format), name, run, run_id, at_ns, author, note, and
 * the signature that storage/signature.h adds. The object's name is the digest of its bytes.
 * Objects are only added: removing a name is a change whose run is null.
 *
 * tag_store_take_in() lists the local store and the bucket behind it, reads the objects that the
 * table `tag` lacks, and then adds all of them in one transaction. The store is never read while
 * that transaction is open.
 *
 * Invariants: objects are hostile. read_tag() checks name, time and length before anything is
 * recorded. An object that is damaged, gone, or of a newer cairn is skipped; any other error stops.
 *
 * Threads: the thread of the database handle. Not here: which run a name means now (rows/tags.c),
 * sending objects to a bucket (store_sync()).
 */
#include "record/manifest/tag_store.h"
#include "base/text/json.h"
#include "record/db_sql.h"
#include "record/facts.h"
#include "record/manifest/manifest.h"
#include "storage/remote/tier.h"
#include "storage/signature.h"

#define RECORD_MAX (64 * KIB)
#define FORMAT     1

int tag_store_put(struct store *s, struct tag_row *t, struct err *err)
{
	_cleanup_(str_deinit) struct str out = { 0 };
	char hex[DIGEST_HEX_MAX];
	json_t *o = json_pack("{s:i, s:I}", "cairn_tag", FORMAT, "at_ns", (json_int_t)t->at_ns);

	json_object_set_new(o, "name", facts_text(t->name));
	json_object_set_new(o, "run",
			    t->has_run ? json_string(digest_hex(&t->run, hex)) : json_null());
	json_object_set_new(o, "run_id", facts_text(t->run_id));
	json_object_set_new(o, "author", facts_text(t->author));
	json_object_set_new(o, "note", facts_text(t->note));
	signature_make_json(s, STORE_TAG, o);
	json_add_canonical(&out, o);
	json_decref(o);
	digest_bytes(out.s, out.len, &t->digest);
	return store_put(s, STORE_TAG, &t->digest, out.s, out.len, err) < 0
		       ? err_wrap(err, "keeping the name %s", t->name)
		       : 0;
}

static bool read_tag(const json_t *o, struct arena *arena, struct tag_row *ret)
{
	const char *run = facts_get_text(o, "run", arena);
	json_t *j = json_object_get(o, "run");

	ret->name = facts_get_text(o, "name", arena);
	ret->run_id = facts_get_text(o, "run_id", arena);
	ret->author = facts_get_text(o, "author", arena);
	ret->note = facts_get_text(o, "note", arena);
	ret->has_run = run && digest_parse(run, &ret->run, NULL) == 0;
	return ret->name && tag_name_check(ret->name, NULL) == 0 &&
	       json_get_int(o, "at_ns", &ret->at_ns, NULL) == 0 && ret->at_ns > 0 &&
	       (ret->has_run || json_is_null(j)) &&
	       (!ret->note || strlen(ret->note) <= TAG_NOTE_MAX);
}

int tag_store_load(struct store *s, const struct digest *name, struct arena *arena,
		   struct tag_row *ret, struct err *err)
{
	_cleanup_(str_deinit) struct str bytes = { 0 };
	struct err why = { 0 };
	int64_t format = 0;
	json_t *o;
	bool good;

	*ret = (struct tag_row){ .digest = *name };
	if (store_get(s, STORE_TAG, name, RECORD_MAX, &bytes, err) < 0)
		return -1;
	if (json_parse("name of a run", bytes.len ? bytes.s : "", bytes.len, &o, &why) < 0)
		return err_set(err, ERR_CORRUPT, "%s", why.msg);
	json_get_int(o, "cairn_tag", &format, NULL);
	good = format == FORMAT && read_tag(o, arena, ret);
	if (good && signature_check_json(s, STORE_TAG, name, o, err) < 0) {
		json_decref(o);
		return -1;
	}
	json_decref(o);
	if (format > FORMAT)
		return err_set(err, ERR_NEWER, "a name in the store was given by a newer cairn");
	return good ? 0 : err_set(err, ERR_CORRUPT, "the record of a name is damaged");
}

/* All changes. */

int tag_store_take_in(struct db *db, struct store *s, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(freep) struct digest *names = NULL;
	struct tag_row *rows;
	size_t n_names, n = 0;
	int r = 0;

	if (tier_names(s, STORE_TAG, &names, &n_names, err) < 0)
		return -1;
	rows = arena_alloc(arena, (n_names + 1) * sizeof(*rows));
	for (size_t i = 0; i < n_names; i++) {
		struct err e = { 0 };
		int one, known = db_get(db, "SELECT 1 FROM tag WHERE digest = ?", DB_IN(&names[i]),
					NULL, DB_OUT(&one), err);

		if (known < 0)
			return -1;
		if (known)
			continue;
		if (tag_store_load(s, &names[i], arena, &rows[n], &e) == 0)
			n++;
		else if (!manifest_is_damage(&e)) /* skip damaged changes */
			return err_pass(err, &e);
	}
	if (n == 0)
		return 0;
	if (db_begin(db, err) < 0)
		return -1;
	for (size_t i = 0; i < n && r >= 0; i++)
		r = record_tag_add(db, &rows[i], err);
	return db_finish(db, r, err) < 0 ? -1 : (int)n;
}

int tag_store_each_run(struct store *s, void (*fn)(void *arg, const struct digest *run), void *arg,
		       struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(freep) struct digest *names = NULL;
	size_t n;

	if (tier_names(s, STORE_TAG, &names, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		struct tag_row row;

		if (tag_store_load(s, &names[i], arena, &row, NULL) == 0 && row.has_run)
			fn(arg, &row.run);
	}
	return 0;
}
