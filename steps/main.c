/* The program `cairn-steps`: the built-in steps, for `cairn step` and for the engine; and
 * `normalise`, for the engine only. In the static program, cairn itself is this, too. */
#include "steps/all.h"

int main(int argc, char **argv)
{
	return steps_main(argc, argv);
}
