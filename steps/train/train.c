/* steps/train/train.c */
#include "steps/step.h"

static int run(struct step_args *a, struct err *err)
{
	return err_set(err, ERR_UNSUPPORTED, "train is not in this build yet");
}

const struct step_impl step_train = { "train", run };
