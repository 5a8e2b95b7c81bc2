/* Version 2 of marker.h. */
#define VERSION "2.0.0"
#define MARK "<2>"
#include "marker.h"
