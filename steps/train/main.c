/* The program `cairn-launch`: the steps that start a command of the user, linked statically, so
 * that they can in any image. */
#include <string.h>
#include "base/mem.h"
#include "steps/train/gang.h"

int main(int argc, char **argv)
{
	static const struct step_impl *const impls[] = { &step_train, &step_ray, &step_spark_submit,
							 NULL };

	if (argc > 1 && strcmp(argv[1], "mpi-agent") == 0)
		return peers_agent_main(argc - 2, argv + 2);
	if (argc > 1 && strcmp(argv[1], ELASTIC_RANK) == 0)
		return elastic_rank_main(argc - 2, argv + 2);
	json_set_alloc_funcs(xmalloc, free);
	return step_main(impls, argc - 1, argv + 1);
}
