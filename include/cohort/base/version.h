#pragma once

/// The one place that states Cohort's version; CMake reads it from here.
#define COHORT_VERSION "0.1.0"
