/* The program `cairn-launch`: the step `train` alone, linked statically, so that ranks can be started in any image. */
#include "base/mem.h"
#include "steps/step.h"

int main(int argc, char **argv)
{
	static const struct step_impl *const impls[] = { &step_train, NULL };

	json_set_alloc_funcs(xmalloc, free);
	return step_main(impls, argc - 1, argv + 1);
}
