"""Compiles reduce.cu to reduce.ptx with NVRTC, or with --check compares: `make cuda-kernels`.

NVRTC comes as a package, which is downloaded into a temporary folder, or from the folder that TGI_NVRTC names.
"""
import ctypes
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile

# PTX of a newer NVRTC may be refused by the oldest driver that CUDA 13 runs on.
PACKAGE = "nvidia-cuda-nvrtc==13.0.88"
OPTIONS = ["--gpu-architecture=compute_80", "--fmad=false", "--prec-div=true", "--ftz=false", "--std=c++17"]
HERE = os.path.dirname(os.path.abspath(__file__))


def unpack(folder):
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--dest", folder, PACKAGE], check=True)
    wheel = next(f for f in os.listdir(folder) if f.endswith(".whl"))
    with zipfile.ZipFile(os.path.join(folder, wheel)) as z:
        for name in z.namelist():
            if ".so" in name:
                with open(os.path.join(folder, os.path.basename(name)), "wb") as f:
                    f.write(z.read(name))


def compile_source(folder, source):
    names = sorted(f for f in os.listdir(folder) if ".so" in f and "alt" not in f)
    for n in names:
        if "builtins" in n:
            ctypes.CDLL(os.path.join(folder, n), mode=ctypes.RTLD_GLOBAL)
    nvrtc = ctypes.CDLL(os.path.join(folder, next(n for n in names if n.startswith("libnvrtc.so"))))
    program = ctypes.c_void_p()

    def call(name, *args):
        code = getattr(nvrtc, name)(*args)
        if code:
            size = ctypes.c_size_t()
            nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            nvrtc.nvrtcGetProgramLog(program, log)
            sys.exit(f"{name} failed with {code}: {log.value.decode()}")

    call("nvrtcCreateProgram", ctypes.byref(program), source, b"reduce.cu", 0, None, None)
    call("nvrtcCompileProgram", program, len(OPTIONS), (ctypes.c_char_p * len(OPTIONS))(*[o.encode() for o in OPTIONS]))
    size = ctypes.c_size_t()
    call("nvrtcGetPTXSize", program, ctypes.byref(size))
    ptx = ctypes.create_string_buffer(size.value)
    call("nvrtcGetPTX", program, ptx)
    return ptx.value.decode()


def main():
    with open(os.path.join(HERE, "reduce.cu"), "rb") as f:
        source = f.read()
    with tempfile.TemporaryDirectory() as folder:
        given = os.environ.get("TGI_NVRTC")
        if not given:
            unpack(folder)
        text = compile_source(given or folder, source)
    lines = [f"// reduce.cu {hashlib.sha256(source).hexdigest()}", f"// {PACKAGE} {' '.join(OPTIONS)}"]
    lines += [line.rstrip() for line in text.split("\n")]
    text = "\n".join(lines).rstrip() + "\n"
    path = os.path.join(HERE, "reduce.ptx")
    if "--check" not in sys.argv:
        with open(path, "w") as f:
            f.write(text)
        return
    with open(path) as f:
        if f.read() != text:
            sys.exit("reduce.ptx is not what reduce.cu compiles to: run make cuda-kernels")


main()
