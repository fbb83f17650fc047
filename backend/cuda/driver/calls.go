package driver

// call is one function of the driver API.
type call int

const (
	cuInit call = iota
	cuDriverGetVersion
	cuGetErrorName
	cuGetErrorString
	cuDeviceGetCount
	cuDeviceGet
	cuDeviceGetName
	cuDeviceTotalMem
	cuDeviceGetAttribute
	cuDevicePrimaryCtxRetain
	cuDevicePrimaryCtxRelease
	cuCtxSetCurrent
	cuCtxSynchronize
	cuMemGetInfo
	cuMemAlloc
	cuMemFree
	cuMemHostAlloc
	cuMemFreeHost
	cuMemcpyHtoDAsync
	cuMemcpyDtoHAsync
	cuMemcpyDtoDAsync
	cuMemcpyAsync
	cuMemcpyBatchAsync
	cuMemsetD8Async
	cuStreamCreate
	cuStreamDestroy
	cuStreamSynchronize
	cuStreamWaitEvent
	cuStreamBeginCapture
	cuStreamEndCapture
	cuEventCreate
	cuEventDestroy
	cuEventRecord
	cuEventQuery
	cuEventSynchronize
	cuEventElapsedTime
	cuLibraryLoadData
	cuLibraryUnload
	cuLibraryGetKernel
	cuKernelGetFunction
	cuFuncSetAttribute
	cuFuncGetAttribute
	cuOccupancyMaxClusters
	cuLaunchKernelEx
	cuGraphInstantiate
	cuGraphLaunch
	cuGraphExecDestroy
	cuGraphDestroy
	cuTensorMapEncodeTiled
	cuDeviceGetUuid
	cuDeviceCanAccessPeer
	cuCtxEnablePeerAccess
	cuIpcGetMemHandle
	cuIpcOpenMemHandle
	cuIpcCloseMemHandle
	numCalls
)

// symbols gives each call's exported name. The _v2 names are the current ABI: cuda.h maps the plain names to them.
var symbols = [numCalls]string{
	cuInit:                    "cuInit",
	cuDriverGetVersion:        "cuDriverGetVersion",
	cuGetErrorName:            "cuGetErrorName",
	cuGetErrorString:          "cuGetErrorString",
	cuDeviceGetCount:          "cuDeviceGetCount",
	cuDeviceGet:               "cuDeviceGet",
	cuDeviceGetName:           "cuDeviceGetName",
	cuDeviceTotalMem:          "cuDeviceTotalMem_v2",
	cuDeviceGetAttribute:      "cuDeviceGetAttribute",
	cuDevicePrimaryCtxRetain:  "cuDevicePrimaryCtxRetain",
	cuDevicePrimaryCtxRelease: "cuDevicePrimaryCtxRelease_v2",
	cuCtxSetCurrent:           "cuCtxSetCurrent",
	cuCtxSynchronize:          "cuCtxSynchronize",
	cuMemGetInfo:              "cuMemGetInfo_v2",
	cuMemAlloc:                "cuMemAlloc_v2",
	cuMemFree:                 "cuMemFree_v2",
	cuMemHostAlloc:            "cuMemHostAlloc",
	cuMemFreeHost:             "cuMemFreeHost",
	cuMemcpyHtoDAsync:         "cuMemcpyHtoDAsync_v2",
	cuMemcpyDtoHAsync:         "cuMemcpyDtoHAsync_v2",
	cuMemcpyDtoDAsync:         "cuMemcpyDtoDAsync_v2",
	cuMemcpyAsync:             "cuMemcpyAsync",
	cuMemcpyBatchAsync:        "cuMemcpyBatchAsync",
	cuMemsetD8Async:           "cuMemsetD8Async",
	cuStreamCreate:            "cuStreamCreate",
	cuStreamDestroy:           "cuStreamDestroy_v2",
	cuStreamSynchronize:       "cuStreamSynchronize",
	cuStreamWaitEvent:         "cuStreamWaitEvent",
	cuStreamBeginCapture:      "cuStreamBeginCapture_v2",
	cuStreamEndCapture:        "cuStreamEndCapture",
	cuEventCreate:             "cuEventCreate",
	cuEventDestroy:            "cuEventDestroy_v2",
	cuEventRecord:             "cuEventRecord",
	cuEventQuery:              "cuEventQuery",
	cuEventSynchronize:        "cuEventSynchronize",
	cuEventElapsedTime:        "cuEventElapsedTime",
	cuLibraryLoadData:         "cuLibraryLoadData",
	cuLibraryUnload:           "cuLibraryUnload",
	cuLibraryGetKernel:        "cuLibraryGetKernel",
	cuKernelGetFunction:       "cuKernelGetFunction",
	cuFuncSetAttribute:        "cuFuncSetAttribute",
	cuFuncGetAttribute:        "cuFuncGetAttribute",
	cuOccupancyMaxClusters:    "cuOccupancyMaxActiveClusters",
	cuLaunchKernelEx:          "cuLaunchKernelEx",
	cuGraphInstantiate:        "cuGraphInstantiateWithFlags",
	cuGraphLaunch:             "cuGraphLaunch",
	cuGraphExecDestroy:        "cuGraphExecDestroy",
	cuGraphDestroy:            "cuGraphDestroy",
	cuTensorMapEncodeTiled:    "cuTensorMapEncodeTiled",
	cuDeviceGetUuid:           "cuDeviceGetUuid_v2",
	cuDeviceCanAccessPeer:     "cuDeviceCanAccessPeer",
	cuCtxEnablePeerAccess:     "cuCtxEnablePeerAccess",
	cuIpcGetMemHandle:         "cuIpcGetMemHandle",
	cuIpcOpenMemHandle:        "cuIpcOpenMemHandle_v2",
	cuIpcCloseMemHandle:       "cuIpcCloseMemHandle",
}

// optional are calls that older drivers lack; their callers have a fallback.
var optional = map[call]bool{cuMemcpyBatchAsync: true} // since CUDA 12.8

func (c call) String() string { return symbols[c] }
