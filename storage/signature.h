/* storage/signature.h — signatures of action records, manifests and tags.
 *
 * Content needs no signature: its name is its digest. A record is a claim, and anyone who can write
 * to a store can make one. A user with a key (the file `key` beside `trust`, see
 * base/crypto/trust.h) signs the records that he writes. If a user's trust file names writers of a
 * store, he believes only his own records and those that one of these writers signed for this
 * store. Other records count as absent; this module counts them. FORMAT.md says which bytes are
 * signed.
 *
 * Signatures decide only belief. Maintenance (gc, verify, transfers) reads all records, so that no
 * record is removed because one user doesn't believe it. Any thread.
 */
#ifndef CAIRN_STORAGE_SIGNATURE_H
#define CAIRN_STORAGE_SIGNATURE_H

#include "base/crypto/sign.h"
#include "base/text/json.h"
#include "storage/store.h"

/* Public key and signature, as stored in a record. */
#define SIGNATURE_BYTES (SIGN_KEY_BYTES + SIGN_SIGNATURE_BYTES)

/* Reads the user's key and trust file for this store. ERR_INVALID: a key or a line is wrong. */
int signature_set_up(struct store *s, struct err *err);
void signature_tear_down(struct store *s);

/* False when the user has no key. */
bool signature_make(const struct store *s, enum store_space space, const void *bytes, size_t n,
		    uint8_t ret[SIGNATURE_BYTES]);
/* Tells whether this user's key made the signature of these bytes. */
bool signature_is_own(const struct store *s, enum store_space space, const void *bytes, size_t n,
		      const uint8_t signature[SIGNATURE_BYTES]);
/* Decides whether a record is believed; every reader calls it. `signature`: NULL when the record
 * has none. -1 with ERR_NOT_FOUND: treat it as absent. */
int signature_check(struct store *s, enum store_space space, const struct digest *name,
		    const void *bytes, size_t n, const uint8_t *signature, struct err *err);

/* The same for records in canonical JSON. The member `signature` signs all other members. */
void signature_make_json(const struct store *s, enum store_space space, json_t *record);
int signature_check_json(struct store *s, enum store_space space, const struct digest *name,
			 const json_t *record, struct err *err);

/* Tells whether this user's trust file names writers of the store. */
bool signature_is_wanted(const struct store *s);
/* From now on all records are believed: for gc, which must keep what others rely on. */
void signature_believe_all(struct store *s);
/* How many records counted as absent so far. */
size_t signature_n_ignored(struct store *s);

#endif
