/* steps/augment/sample.h — the changes to each sample: the settings, read once, and the changed
 * images of one sample.
 *
 * A plan never changes once it is made; any number of threads use it, each with a separate
 * workspace.
 */
#ifndef CAIRN_STEPS_AUGMENT_SAMPLE_H
#define CAIRN_STEPS_AUGMENT_SAMPLE_H

#include "steps/augment/codec.h"
#include "steps/augment/ops.h"
#include "steps/shards/shards.h"

enum on_bad { ON_BAD_FAIL, ON_BAD_SKIP, ON_BAD_KEEP };

struct plan {
	const json_t *with; /* lent */
	struct op ops[OPS_MAX];
	size_t n_ops;
	const struct op *normalize; /* the last op, if it is a normalize */
	const json_t *image, *masks;
	struct codec_options codec;
	enum image_format to; /* IMAGE_NONE: the image's own format */
	uint64_t seed;
	uint32_t copies;
	int quality, compression;
	bool scaled_decode, record;
	enum on_bad on_bad;
};
int plan_init(struct plan *p, const json_t *with, struct err *err); /* nothing to deinit */

/* One result: the fields that go into the shard under the key. */
struct augmented {
	char *key;
	struct shard_field *fields;
	size_t n_fields;
	void **owned; /* names and bytes of fields that aren't lent by the sample */
	size_t n_owned;
};
void augmented_deinit(struct augmented *m);

/* Makes copies first .. first + n - 1 of a sample in ret[0..n-1], whose fields borrow from the
 * sample. Returns the number of images in it. On error (with the field's name) nothing is left in
 * ret. */
int sample_augment(const struct plan *p, const struct shard_sample *s, uint32_t first, uint32_t n,
		   struct workspace *ws, struct augmented *ret, struct err *err);
/* Makes a result of the unchanged sample. */
void sample_keep(const struct plan *p, const struct shard_sample *s, uint32_t copy,
		 struct augmented *ret);

#endif
