#include "steps/all.h"
#include <string.h>
#include "base/mem.h"
#include "steps/normalise/normalise.h"
#include "steps/train/gang.h"

static const struct step_impl *const impls[] = {
	&step_shard, &step_augment, &step_train, &step_evaluate, &step_ray, &step_spark_submit, NULL
};

bool steps_are_called(int argc, char **argv)
{
	const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;

	if (argc > 0 && strcmp(slash ? slash + 1 : argv[0], "cairn-steps") == 0)
		return true;
	if (argc > 1 && (strcmp(argv[1], "normalise") == 0 || strcmp(argv[1], "mpi-agent") == 0 ||
			 strcmp(argv[1], ELASTIC_RANK) == 0))
		return true;
	return argc > 2 && strcmp(argv[2], "--with-json") == 0;
}

int steps_main(int argc, char **argv)
{
	json_set_alloc_funcs(xmalloc, free); /* out of memory is fatal, as everywhere */
	if (argc > 1 && strcmp(argv[1], "normalise") == 0)
		return normalise_main(argc - 2, argv + 2);
	if (argc > 1 && strcmp(argv[1], "mpi-agent") == 0)
		return peers_agent_main(argc - 2, argv + 2);
	if (argc > 1 && strcmp(argv[1], ELASTIC_RANK) == 0)
		return elastic_rank_main(argc - 2, argv + 2);
	return step_main(impls, argc - 1, argv + 1);
}
