import time, warnings
import numpy as np, pytest, pyapp
from pyapp.engine.native import IN_BROWSER

def test_open():
    t=time.perf_counter()
    x=pyapp.arange(10).float().to("webgpu")
    b=pyapp.device("webgpu").backend
    print(b.name, b.largest, b._dots, time.perf_counter()-t)
    print(x.cpu().tolist())
    y=x*2+1
    print(y.tolist())
    z=y.sum()
    print(z.item())
    for name in ("copy","elementwise"): pass

def test_all_compile():
    from pyapp.engine.gpu import wgsl
    from pyapp.engine.native import SIGNATURES
    from pyodide.ffi import run_sync
    import js
    b=pyapp.device("webgpu").backend
    bad=[]
    for name,p in wgsl.programs().items():
        ptrs=SIGNATURES[name].split("|")[0].split(); dims=SIGNATURES[name].split("|")[1].split()
        consts=[{"type":13,"x_type":13,"y_type":13,"index_type":8,"element_bytes":4,"rank":2,"id_bytes":4,"opcode":0}[c] for c in p.constants]
        if name in ("linear_blocks","pack_blocks","unpack_blocks","embedding_blocks"): consts=[2]
        mem=list(range(len(ptrs)))
        w=wgsl.written(name)
        text=wgsl.text_of(name,consts,mem,"".join("w" if x else "r" for x in w),False,True)
        m=b.card.device.createShaderModule(pyodide_dict({"code":text}))
        info=run_sync(m.getCompilationInfo())
        for msg in info.messages:
            if msg.type=="error":
                line=text.splitlines()[msg.lineNum-1]
                bad.append(f"{name}: {msg.message} @ {line}")
    print("\n".join(bad))
    assert not bad

def pyodide_dict(d):
    from pyodide.ffi import to_js
    import js
    return to_js(d, dict_converter=js.Object.fromEntries)

def test_ops(monkeypatch):
    from tests.engine import test_fused
    from tests.engine.test_fused import EVERY
    table, int32 = test_fused.TABLE, test_fused.int32
    good=[]; 
    for name,(function,inputs) in EVERY.items():
        if name in ("fft","rfft"): continue
        res=[]
        with warnings.catch_warnings(record=True) as w:
            warnings.simplefilter("always")
            try:
                for device in ("cpu","webgpu"):
                    monkeypatch.setattr(test_fused, "TABLE", table.to(device))
                    monkeypatch.setattr(test_fused, "int32", lambda *values, to=device: int32(*values).to(to))
                    res.append(function(*[x.detach().to(device) for x in inputs]).cpu())
                np.testing.assert_allclose(res[1].numpy(),res[0].numpy(),rtol=2e-5,atol=2e-5)
            except Exception as e:
                print("BAD",name,type(e).__name__,str(e).replace("\n"," ")[:600])
                continue
        if w: print("HOST",name,{str(x.message)[:90] for x in w})
        else: good.append(name)
    print("GOOD",len(good),good)

def test_llama():
    from pyapp.models import load_model
    from pyapp.text.generate import Session
    from pathlib import Path
    path="web/models/stories/model.bin"
    toks={}
    for device in ("cpu","webgpu"):
        m=load_model(path,device=None if device=="cpu" else device)
        s=Session(m.model)
        l=s.feed([1,5,6,7]); out=[]
        for i in range(20):
            v=np.array(l.read_values()); t=int(v.argmax()); out.append(t); l=s.step(t)
        toks[device]=out
        print(device,out)
    assert toks["cpu"]==toks["webgpu"]

def test_times():
    from pyapp.models import load_model
    from pyapp.text.generate import Session
    T=time.perf_counter
    t=T(); m=load_model("web/models/stories/model.bin",device="webgpu"); b=pyapp.device("webgpu").backend
    b.synchronize(); print("load",T()-t, b.allocated, b.reserved)
    n0=len(b._programs)
    t=T(); s=Session(m.model); l=s.feed([1,5,6,7]); b.synchronize(); print("feed",T()-t, len(b._programs)-n0)
    n0=len(b._programs)
    t=T(); l=s.step(3); b.synchronize(); print("step1",T()-t,len(b._programs)-n0)
    for i in range(4):
        st=b.card.starts; su=b.card.submissions
        t=T(); l=s.step(3); t1=T()-t; b.synchronize(); print("step", "python+js",t1,"with gpu",T()-t, b.card.starts-st, b.card.submissions-su)
        t=T(); v=l.read_values(); print("read", T()-t)
    ts=[]
    for i in range(50):
        t=T(); l=s.step(3); ts.append(T()-t)
    b.synchronize()
    ts.sort(); print("step cpu median", ts[25], ts[5])
    x=pyapp.ones(4,4).to("webgpu"); y=x+x
    t=T()
    for i in range(200): y=x+x
    t1=(T()-t)/200; b.synchronize(); print("eager add", t1)
    x=pyapp.ones(4,4)
    t=T()
    for i in range(200): y=x+x
    print("eager add cpu", (T()-t)/200)
    calls=list(b._programs)
    # compile time
    from pyapp.engine.gpu import wgsl
    t=T(); text=wgsl.text_of('cached_attention',(13,),(0,0,0,0,0,None,None,None),'w',False,True); print("text",T()-t,len(text))
    t=T(); n=b.card.compile(text,'w'); print("compile js",T()-t); 
