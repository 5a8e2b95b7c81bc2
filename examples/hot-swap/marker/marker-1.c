/* Version 1 of marker.h. */
#define VERSION "1.0.0"
#define MARK "<1>"
#include "marker.h"
