/* storage/signature.h — whose word a record is: action records, manifests and tags may be signed.
 *
 * Content needs no signature: its name is its digest. A record is a claim, and whoever may write
 * to a store can make one. A user who has a key (the file `key` beside `trust`, see
 * base/crypto/trust.h) signs what he records. A user whose trust file names writers of a store
 * believes only records that one of them signed for this store, and his own; to him others aren't
 * there, and how many is counted. FORMAT.md says which bytes are signed.
 *
 * This is about belief alone. What maintains a store (gc, verify, transfers) reads records as they
 * are, so that nobody's are removed because somebody doesn't believe them. Any thread.
 */
#ifndef CAIRN_STORAGE_SIGNATURE_H
#define CAIRN_STORAGE_SIGNATURE_H

#include "base/crypto/sign.h"
#include "base/text/json.h"
#include "storage/store.h"

/* Public key and signature, as they stand in a record. */
#define SIGNATURE_BYTES (SIGN_KEY_BYTES + SIGN_SIGNATURE_BYTES)

/* What the user's configuration says of this store. ERR_INVALID: a key or a line of it is wrong. */
int signature_set_up(struct store *s, struct err *err);
void signature_tear_down(struct store *s);

/* False when the user has no key. */
bool signature_make(const struct store *s, enum store_space space, const void *bytes, size_t n,
		    uint8_t ret[SIGNATURE_BYTES]);
/* Tells whether this user's key made the signature of these bytes. */
bool signature_is_own(const struct store *s, enum store_space space, const void *bytes, size_t n,
		      const uint8_t signature[SIGNATURE_BYTES]);
/* Through here goes every record that is believed. `signature`: NULL when it has none. -1 with
 * ERR_NOT_FOUND: it counts as absent. */
int signature_check(struct store *s, enum store_space space, const struct digest *name,
		    const void *bytes, size_t n, const uint8_t *signature, struct err *err);

/* The same of records that are canonical JSON: the member `signature`, over all others. */
void signature_make_json(const struct store *s, enum store_space space, json_t *record);
int signature_check_json(struct store *s, enum store_space space, const struct digest *name,
			 const json_t *record, struct err *err);

/* Tells whether this user names writers of the store. */
bool signature_is_wanted(const struct store *s);
/* From now on all records are believed: for gc, which must keep what others rely on. */
void signature_believe_all(struct store *s);
/* How many records counted as absent so far. */
size_t signature_n_ignored(struct store *s);

#endif
