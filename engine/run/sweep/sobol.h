/* engine/run/sweep/sobol.h — the Sobol sequence: points that fill a cube evenly. */
#ifndef CAIRN_RUN_SWEEP_SOBOL_H
#define CAIRN_RUN_SWEEP_SOBOL_H

#include <stdint.h>

#define SOBOL_DIMENSIONS 21

/* Coordinate `dimension` (from 0) of point n, as a fraction of 2^32, in the order of the Gray code.
 * Point 0 is the origin. */
uint32_t sobol(uint32_t n, unsigned dimension);

#endif
