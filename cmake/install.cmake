# An installed copy: headers, the libraries of the rooms, the program, and a package for find_package(rondo).
# Users link rondo::rondo, or rondo::graph for CUDA graphs alone; the other rooms are an implementation detail.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(rooms GLOBAL PROPERTY RONDO_ROOMS)
install(TARGETS ${rooms} EXPORT rondoTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/rondo DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT rondoTargets NAMESPACE rondo:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rondo)
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/rondoConfig.cmake.in ${CMAKE_BINARY_DIR}/rondoConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rondo)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/rondoConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/rondoConfig.cmake ${CMAKE_BINARY_DIR}/rondoConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rondo)
