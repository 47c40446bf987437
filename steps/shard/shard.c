/* steps/shard/shard.c */
#include "steps/step.h"

static int run(struct step_args *a, struct err *err)
{
	return err_set(err, ERR_UNSUPPORTED, "shard is not in this build yet");
}

const struct step_impl step_shard = { "shard", run };
