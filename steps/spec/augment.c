/* What `augment` takes. */
#include "steps/spec/tables.h"

static const struct spec_option options[] = {
	{ 0 },
};

const struct step_spec spec_augment = {
	.name = "augment", .summary = "", .about = "", .version = 1, .options = options,
};
