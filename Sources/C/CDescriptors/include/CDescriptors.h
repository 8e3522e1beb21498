#ifndef SLUICE_CDESCRIPTORS_H
#define SLUICE_CDESCRIPTORS_H
// Nothing to call: see Descriptors.c.
#endif
