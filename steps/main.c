/* The program `cairn-steps`: the built-in steps, for `cairn step` and for the engine; and
 * `normalise`, for the engine only. */
#include <string.h>
#include "base/mem.h"
#include "steps/normalise/normalise.h"
#include "steps/train/gang.h"

static const struct step_impl *const impls[] = { &step_shard, &step_augment, &step_train,
						 &step_evaluate, NULL };

int main(int argc, char **argv)
{
	json_set_alloc_funcs(xmalloc, free); /* out of memory is fatal, as everywhere */
	if (argc > 1 && strcmp(argv[1], "normalise") == 0)
		return normalise_main(argc - 2, argv + 2);
	if (argc > 1 && strcmp(argv[1], "mpi-agent") == 0)
		return peers_agent_main(argc - 2, argv + 2);
	return step_main(impls, argc - 1, argv + 1);
}
