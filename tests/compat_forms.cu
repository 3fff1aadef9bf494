// nvcc compiles every form, with the overloads that cuda_runtime.h has under it. Nothing of this is called.
#include "compat_forms.h"

namespace compat_forms {
// Kept in the object, so that the bodies are compiled too.
extern cudaError_t (*const kForms[])(forms::Args&);
cudaError_t (*const kForms[])(forms::Args&) = {forms::instantiate_11,
                                               forms::instantiate_12,
                                               forms::update_11,
                                               forms::update_12,
                                               forms::capture_info_11,
                                               forms::capture_info_12,
                                               forms::capture_dependencies_12,
                                               forms::no_capture_dependencies_12,
                                               forms::connect_12,
                                               forms::disconnect_12,
                                               forms::edges_12,
                                               forms::dependencies_12,
                                               forms::dependents_12,
                                               forms::add_node_12,
                                               forms::capture_info_v2,
                                               forms::capture_info_v3,
                                               forms::capture_info_13,
                                               forms::capture_dependencies_13,
                                               forms::connect_13,
                                               forms::disconnect_13,
                                               forms::edges_13,
                                               forms::dependencies_13,
                                               forms::dependents_13,
                                               forms::add_node_13,
                                               forms::batch_12,
                                               forms::batch_13,
                                               forms::batch_3d_12,
                                               forms::batch_3d_13};
}  // namespace compat_forms
